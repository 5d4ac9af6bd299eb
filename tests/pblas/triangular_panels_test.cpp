// SPDX-License-Identifier: BSD-3-Clause
#include <complex>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <boost/mpi/communicator.hpp>

#include "cubist/backend/mpi.hpp"
#include "cubist/foreign/pgemm.hpp"

#include "backend.hpp"
#include "catch.hpp"
#include "economy.hpp"
#include "one_triangle.hpp"
#include "random_matrix.hpp"
#include "triangular_panels.hpp"

namespace cubist::test::pblas_triangular_panels_test
{

template <class T>
T x_at(std::size_t i, std::size_t j)
{
  return SmallIntegers::element<T>(hash(1, i, j));
}

template <class T>
void check_trmm_and_trsm(const boost::mpi::communicator& world, std::uint64_t seed,
                         const TriangularOperand& how)
{
  Dice dice{seed};
  const std::size_t n = 1 + dice(300);  // up to three panels
  const std::size_t other = 1 + dice(20);
  const Shape shape = how.side == Side::left ? Shape{n, other} : Shape{other, n};
  const PgemmOptions options{.method = Method::collectives};
  const auto product = [&](auto i, auto j) { return product_at<T>(how, n, x_at<T>, i, j); };
  const T alpha = scalar<T>(2, -1);
  CAPTURE(seed, n, other, int(how.side), int(how.triangle), int(how.op), int(how.diagonal));

  RandomMatrix<T> a{{n, n}, dice};
  RandomMatrix<T> b{shape, dice};
  a.fill([&](auto i, auto j) { return stored<T>(how, i, j); });
  b.fill(x_at<T>);
  ptrmm<T>(world, how, shape, alpha, a.matrix(), b.matrix(), options);
  CHECK(everywhere(b.is([&](auto i, auto j) { return alpha * product(i, j); })));
  b.fill(product);
  ptrsm<T>(world, how, shape, alpha, a.matrix(), b.matrix(), options);
  CHECK(everywhere(b.is([&](auto i, auto j) { return alpha * x_at<T>(i, j); })));
}

template <class T>
void check_syrk(const boost::mpi::communicator& world, std::uint64_t seed, Triangle triangle, Op op,
                Symmetry symmetry)
{
  Dice dice{seed};
  const std::size_t n = 1 + dice(300);
  const std::size_t k = 1 + n / 8 + dice(30);
  const bool is_hermitian = symmetry == Symmetry::hermitian;
  const T alpha = is_hermitian ? T{2} : scalar<T>(2, -1);
  const T beta = dice(3) == 0 ? T{} : T{3};
  const T nan = scalar<T>(std::numeric_limits<double>::quiet_NaN(), 0);
  CAPTURE(seed, n, k, int(triangle), int(op), int(symmetry));

  RandomMatrix<T> a{op == Op::none ? Shape{n, k} : Shape{k, n}, dice};
  RandomMatrix<T> c{{n, n}, dice};
  a.fill(x_at<T>);
  const auto old = [&](std::size_t i, std::size_t j) {
    return beta == T{} && is_in(triangle, i, j) ? nan : x_at<T>(i, j + 1000);
  };
  c.fill(old);
  psyrk<T>(world, triangle, op, symmetry, {n, k}, alpha, a.matrix(), beta, c.matrix(),
           {.method = Method::collectives});
  const auto times = [&](T p, T q) { return is_hermitian ? p * conjugate(q) : p * q; };
  CHECK(everywhere(c.is([&](std::size_t i, std::size_t j) {
    if (!is_in(triangle, i, j)) return old(i, j);
    T sum{};
    for (std::size_t l = 0; l < k; ++l)
      sum += op == Op::none ? times(x_at<T>(i, l), x_at<T>(j, l))
                            : times(x_at<T>(l, j), x_at<T>(l, i));
    T wanted = beta == T{} ? alpha * sum : alpha * sum + beta * old(i, j);
    if constexpr (ComplexScalar<T>)
      if (is_hermitian && i == j) wanted.imag(0);
    return wanted;
  })));
}

constexpr auto triangles = {Triangle::lower, Triangle::upper};

TEMPLATE_TEST_CASE(
    "panels of triangles in any layouts multiply and solve as the serial oracle does", "", double,
    std::complex<float>)
{
  const boost::mpi::communicator world;
  const int rounds = repeats(4, 1, 1);
  std::uint64_t seed = 0;
  for (int r = 0; r < rounds; ++r)
    for (const auto side : {Side::left, Side::right})
      for (const auto triangle : triangles)
        for (const auto op : {Op::none, Op::transpose, Op::adjoint})
          for (const auto diagonal : {Diagonal::stored, Diagonal::unit})
            check_trmm_and_trsm<TestType>(world, seed++, {side, triangle, op, diagonal});
}

TEMPLATE_TEST_CASE("panels of symmetric products in any layouts add up to the serial oracle's", "",
                   double, std::complex<float>)
{
  const boost::mpi::communicator world;
  const int rounds = repeats(8, 2, 2);
  std::uint64_t seed = 1000;
  for (int r = 0; r < rounds; ++r)
    for (const auto triangle : triangles)
      for (const auto op : {Op::none, Op::transpose})
        for (const auto symmetry : {Symmetry::symmetric, Symmetry::hermitian})
          check_syrk<TestType>(world, seed++, triangle, op, symmetry);
}

}  // namespace cubist::test::pblas_triangular_panels_test
