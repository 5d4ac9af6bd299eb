// SPDX-License-Identifier: BSD-3-Clause
#include <complex>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <boost/mpi/communicator.hpp>
#include <mpi.h>

#include "cubist/backend/mpi.hpp"
#include "cubist/foreign/pgemm.hpp"

#include "backend.hpp"
#include "catch.hpp"
#include "economy.hpp"
#include "foreign_matrices.hpp"
#include "one_triangle.hpp"
#include "triangular_panels.hpp"

namespace cubist::test::pblas_triangular_panels_test
{

/// A sub-matrix in a random block-cyclic layout, found index by index.
template <class T>
class RandomMatrix
{
 public:
  RandomMatrix(Shape shape, Dice& dice)
      : shape_{shape}
  {
    const boost::mpi::communicator world;
    const int rows = 1 + dice.integer(world.size());
    const ProcessGrid grid{rows, 1 + dice.integer(world.size() / rows),
                           dice(2) == 0 ? StorageOrder::row_major : StorageOrder::column_major};
    place_.i = dice(9);
    place_.j = dice(9);
    place_.layout = {.shape = {place_.i + shape.rows + dice(5), place_.j + shape.cols + dice(5)},
                     .block = {1 + dice(40), 1 + dice(40)},
                     .grid = grid,
                     .row_source = dice(6) == 0 ? -1 : dice.integer(grid.rows),
                     .col_source = dice(6) == 0 ? -1 : dice.integer(grid.cols)};
    if (dice(2) == 0) place_.layout.first_block = {1 + dice(50), 1 + dice(50)};
    const BlockCyclic& l = place_.layout;
    if (world.rank() < grid.size())
    {
      rows_ = cyclic_indices(l.shape.rows, l.first_block.rows, l.block.rows, l.row_source,
                             grid.row(world.rank()), grid.rows);
      cols_ = cyclic_indices(l.shape.cols, l.first_block.cols, l.block.cols, l.col_source,
                             grid.col(world.rank()), grid.cols);
    }
    array_.assign((rows_.size() + 2) * cols_.size() + 1, T{-99});
  }

  [[nodiscard]] BlockCyclicMatrix<T> matrix() { return {place_, array_.data(), rows_.size() + 2}; }

  /// Sets the elements of the sub-matrix to f(i, j).
  template <class F>
  void fill(F f)
  {
    for_each([&](std::size_t i, std::size_t j, bool is_inside, T& x) {
      if (is_inside) x = f(i, j);
    });
  }
  /// Whether this rank's elements of the sub-matrix are f(i, j), and the others are unchanged.
  template <class F>
  [[nodiscard]] bool is(F f)
  {
    bool same = true;
    for_each([&](std::size_t i, std::size_t j, bool is_inside, const T& x) {
      same = same && x == (is_inside ? f(i, j) : T{-99});
    });
    return same;
  }

 private:
  template <class F>
  void for_each(F f)
  {
    for (std::size_t col = 0; col < cols_.size(); ++col)
      for (std::size_t row = 0; row < rows_.size(); ++row)
      {
        const std::size_t i = rows_[row] - place_.i;
        const std::size_t j = cols_[col] - place_.j;
        f(i, j, i < shape_.rows && j < shape_.cols, array_[col * (rows_.size() + 2) + row]);
      }
  }

  Shape shape_;
  SubMatrixPlace place_;
  std::vector<std::size_t> rows_;
  std::vector<std::size_t> cols_;
  std::vector<T> array_;
};

static bool everywhere(bool holds)
{
  int all = holds ? 1 : 0;
  MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  return all == 1;
}

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
