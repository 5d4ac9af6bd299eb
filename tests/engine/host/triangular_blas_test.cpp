// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/engine/host/engine.hpp"
#include "cubist/engine/host/triangular_blas.hpp"

#include "catch.hpp"
#include "message.hpp"
#include "one_triangle.hpp"

namespace cubist::test::engine_host_triangular_blas_test
{

template <class T, class F>
std::vector<T> filled(Shape shape, F f)
{
  std::vector<T> all;
  for (std::size_t i = 0; i < shape.rows; ++i)
    for (std::size_t j = 0; j < shape.cols; ++j) all.push_back(f(i, j));
  return all;
}

template <class T>
T b_at(std::size_t i, std::size_t j)
{
  return SmallIntegers::element<T>(hash(9, i, j));
}
template <class T>
T c_at(std::size_t i, std::size_t j)
{
  return SmallIntegers::element<T>(hash(10, i, j));
}

template <class T>
void check_triangular(const TriangularOperand& how)
{
  const Shape shape{5, 4};
  const std::size_t n = how.side == Side::left ? shape.rows : shape.cols;
  const HostEngine engine;
  const auto a = filled<T>({n, n}, [&](auto i, auto j) { return stored<T>(how, i, j); });
  const MatrixView<const T> in{a.data(), {n, n}};
  const auto x = filled<T>(shape, b_at<T>);
  const auto product =
      filled<T>(shape, [&](auto i, auto j) { return T{2} * product_at<T>(how, n, b_at<T>, i, j); });
  auto b = x;
  engine.trmm(how, T{2}, in, MatrixView<T>{b.data(), shape});
  CHECK(b == product);
  engine.trsm(how, T{3}, in, MatrixView<T>{b.data(), shape});
  CHECK(b == filled<T>(shape, [](auto i, auto j) { return T{6} * b_at<T>(i, j); }));
}

template <class T>
void check_symmetric(const SymmetricOperand& how)
{
  const Shape shape{4, 6};
  const std::size_t n = how.side == Side::left ? shape.rows : shape.cols;
  const auto a = filled<T>({n, n}, [&](auto i, auto j) { return stored<T>(how, i, j); });
  const auto b = filled<T>(shape, b_at<T>);
  auto c = filled<T>(shape, c_at<T>);
  HostEngine{}.symm(how, T{2}, MatrixView<const T>{a.data(), {n, n}},
                    MatrixView<const T>{b.data(), shape}, T{-3}, MatrixView<T>{c.data(), shape});
  CHECK(c == filled<T>(shape, [&](auto i, auto j) {
          return T{2} * product_at<T>(how, n, b_at<T>, i, j) - T{3} * c_at<T>(i, j);
        }));
}

TEMPLATE_TEST_CASE("BLAS multiplies by one triangle of a matrix, and reads nothing else of it", "",
                   float, double, std::complex<float>, std::complex<double>)
{
  for (const auto side : {Side::left, Side::right})
    for (const auto triangle : {Triangle::lower, Triangle::upper})
    {
      CAPTURE(int(side), int(triangle));
      for (const auto op : {Op::none, Op::transpose, Op::adjoint})
        for (const auto diagonal : {Diagonal::stored, Diagonal::unit})
          check_triangular<TestType>({side, triangle, op, diagonal});
      for (const auto symmetry : {Symmetry::symmetric, Symmetry::hermitian})
        check_symmetric<TestType>({side, triangle, symmetry});
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

}  // namespace cubist::test::engine_host_triangular_blas_test
