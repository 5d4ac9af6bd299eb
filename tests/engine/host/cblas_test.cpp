// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/engine/host/cblas.hpp"
#include "cubist/engine/host/engine.hpp"

#include "catch.hpp"
#include "message.hpp"
#include "one_triangle.hpp"

namespace cubist::test::engine_host_cblas_test
{

template <class T, class F>
std::vector<T> filled(Shape shape, F f)
{
  std::vector<T> all;
  for (std::size_t i = 0; i < shape.rows; ++i)
    for (std::size_t j = 0; j < shape.cols; ++j) all.push_back(f(i, j));
  return all;
}

TEMPLATE_TEST_CASE("BLAS multiplies by one triangle of a matrix, and reads nothing else of it", "",
                   float, double, std::complex<float>, std::complex<double>)
{
  using T = TestType;
  const HostEngine engine;
  const auto b_at = small_integers<T>(9), c_at = small_integers<T>(10);
  for (const auto side : {Side::left, Side::right})
    for (const auto triangle : {Triangle::lower, Triangle::upper})
    {
      CAPTURE(int(side), int(triangle));
      for (const auto op : {Op::none, Op::transpose, Op::adjoint})
        for (const auto diagonal : {Diagonal::stored, Diagonal::unit})
        {
          const TriangularOperand how{side, triangle, op, diagonal};
          const Shape shape{5, 4};
          const std::size_t n = side == Side::left ? shape.rows : shape.cols;
          const auto a = filled<T>({n, n}, [&](auto i, auto j) { return stored<T>(how, i, j); });
          const MatrixView<const T> in{a.data(), {n, n}};
          auto b = filled<T>(shape, b_at);
          engine.trmm(how, T{2}, in, MatrixView<T>{b.data(), shape});
          CHECK(b == filled<T>(shape, [&](auto i, auto j) {
                  return T{2} * product_at<T>(how, n, b_at, i, j);
                }));
          engine.trsm(how, T{3}, in, MatrixView<T>{b.data(), shape});
          CHECK(b == filled<T>(shape, [&](auto i, auto j) { return T{6} * b_at(i, j); }));
        }
      for (const auto symmetry : {Symmetry::symmetric, Symmetry::hermitian})
      {
        const SymmetricOperand how{side, triangle, symmetry};
        const Shape shape{4, 6};
        const std::size_t n = side == Side::left ? shape.rows : shape.cols;
        const auto a = filled<T>({n, n}, [&](auto i, auto j) { return stored<T>(how, i, j); });
        const auto b = filled<T>(shape, b_at);
        auto c = filled<T>(shape, c_at);
        engine.symm(how, T{2}, MatrixView<const T>{a.data(), {n, n}},
                    MatrixView<const T>{b.data(), shape}, T{-3}, MatrixView<T>{c.data(), shape});
        CHECK(c == filled<T>(shape, [&](auto i, auto j) {
                return T{2} * product_at<T>(how, n, b_at, i, j) - T{3} * c_at(i, j);
              }));
      }
    }
}

TEST_CASE("a triangle that does not fit the other matrix is refused")
{
  std::vector<double> memory(12);
  const auto text = message_of<ShapeError>([&] {
    HostEngine{}.trsm({.side = Side::right}, 1.0, MatrixView<const double>{memory.data(), {3, 3}},
                      MatrixView<double>{memory.data(), {3, 4}});
  });
  CHECK(mentions(text, "(3, 3)", "right", "(3, 4)", "with 4 rows"));
}

}  // namespace cubist::test::engine_host_cblas_test
