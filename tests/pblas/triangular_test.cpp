// SPDX-License-Identifier: BSD-3-Clause
#include <mpi.h>

#include "backend.hpp"
#include "catch.hpp"
#include "foreign_matrices.hpp"
#include "message.hpp"
#include "one_triangle.hpp"
#include "triangular.hpp"

namespace cubist::test::pblas_triangular_test
{

/// A block-cyclic matrix on all processes, found index by index.
template <class T>
struct Local
{
  template <class F>
  Local(Shape shape, F f)
      : place{{.shape = shape, .block = {3, 2}, .grid = {1, boost::mpi::communicator{}.size()}}}
  {
    const auto& layout = place.layout;
    rows = cyclic_indices(shape.rows, 0, layout.block.rows, 0, 0, 1);
    cols = cyclic_indices(shape.cols, 0, layout.block.cols, 0, boost::mpi::communicator{}.rank(),
                          layout.grid.cols);
    for (const std::size_t j : cols)
      for (const std::size_t i : rows) array.push_back(f(i, j));
    array.resize(array.size() + 1);
  }
  [[nodiscard]] BlockCyclicMatrix<T> matrix() { return {place, array.data(), rows.size()}; }

  /// Whether the elements of all processes are what f(i, j) says.
  template <class F>
  [[nodiscard]] bool is(F f) const
  {
    int same = 1;
    std::size_t at = 0;
    for (const std::size_t j : cols)
      for (const std::size_t i : rows) same = array[at++] == f(i, j) ? same : 0;
    MPI_Allreduce(MPI_IN_PLACE, &same, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return same == 1;
  }

  SubMatrixPlace place;
  std::vector<std::size_t> rows;
  std::vector<std::size_t> cols;
  std::vector<T> array;
};

template <class T>
T x_at(std::size_t i, std::size_t j)
{
  return SmallIntegers::element<T>(hash(1, i, j));
}

/// Checks all four products, with a triangle of n rows.
template <class T>
void check_all(const boost::mpi::communicator& world, std::size_t n, std::size_t other,
               const PgemmOptions& options)
{
  for (const auto side : {Side::left, Side::right})
    for (const auto triangle : {Triangle::lower, Triangle::upper})
    {
      CAPTURE(n, other, int(side), int(triangle));
      const Shape shape = side == Side::left ? Shape{n, other} : Shape{other, n};
      const Op op = triangle == Triangle::lower ? Op::adjoint : Op::none;
      const TriangularOperand how{side, triangle, op, Diagonal::stored};
      Local<T> a{{n, n}, [&](auto i, auto j) { return stored<T>(how, i, j); }};
      const auto product = [&](auto i, auto j) { return product_at<T>(how, n, x_at<T>, i, j); };
      Local<T> b{shape, x_at<T>};
      ptrmm<T>(world, how, shape, T{2}, a.matrix(), b.matrix(), options);
      CHECK(b.is([&](auto i, auto j) { return T{2} * product(i, j); }));
      ptrsm<T>(world, how, shape, T{-1}, a.matrix(), b.matrix(), options);
      CHECK(b.is([&](auto i, auto j) { return T{-2} * x_at<T>(i, j); }));

      const SymmetricOperand symmetric{side, triangle, Symmetry::hermitian};
      Local<T> s{{n, n}, [&](auto i, auto j) { return stored<T>(symmetric, i, j); }};
      Local<T> c{shape, x_at<T>};
      psymm<T>(world, symmetric, shape, T{1}, s.matrix(), b.matrix(), T{3}, c.matrix(), options);
      CHECK(c.is([&](auto i, auto j) {
        return T{-2} * product_at<T>(symmetric, n, x_at<T>, i, j) + T{3} * x_at<T>(i, j);
      }));

      const Op of_c = side == Side::left ? Op::none : Op::transpose;
      Local<T> d{{n, n}, x_at<T>};
      psyrk<T>(world, triangle, of_c, Symmetry::symmetric, {n, other}, T{1}, b.matrix(), T{2},
               d.matrix(), options);
      CHECK(d.is([&](auto i, auto j) {
        T sum{};
        for (std::size_t k = 0; k < other; ++k)
          sum += of_c == Op::none ? x_at<T>(i, k) * x_at<T>(j, k) : x_at<T>(k, i) * x_at<T>(k, j);
        const T old = x_at<T>(i, j);
        return is_in(triangle, i, j) ? T{4} * sum + T{2} * old : old;
      }));
    }
}

TEST_CASE("a sub-matrix lies as a whole matrix of the layout that is found for it")
{
  Dice dice{1};
  for (int k = 0; k < 200; ++k)
  {
    const BlockCyclic whole{.shape = {40, 40},
                            .block = {1 + dice(5), 1 + dice(5)},
                            .grid = {2, 3},
                            .row_source = dice.integer(3) - 1,
                            .col_source = dice.integer(4) - 1,
                            .first_block = {dice(6), dice(6)}};
    const SubMatrixPlace place{whole, dice(20), dice(20)};
    const Shape shape{1 + dice(20), 1 + dice(20)};
    const Distribution found{detail::layout_of(place, shape)};
    const Distribution wanted{place, shape};
    for (int rank = 0; rank < 6; ++rank)
    {
      CHECK(found.held_shape(rank) == wanted.held_shape(rank));
      CHECK(conversion_cost(found, wanted, Op::none).sent == 0);
    }
  }
}

TEST_CASE("products with a triangle in shared memory are those of the serial oracle")
{
  check_all<std::complex<double>>({}, 37, 29, {});
}

TEST_CASE("a triangle that is cut, as its memory is limited or B is thin, gives the same products")
{
  const boost::mpi::communicator world;
  check_all<double>(world, 300, 3, {.shared_bytes = 1});
}

TEST_CASE("a triangle of a product with many inner indices is computed in steps")
{
  constexpr Shape shape{70, 2500};
  Local<double> a{shape, x_at<double>};
  Local<double> c{{shape.rows, shape.rows}, x_at<double>};
  psyrk<double>({}, Triangle::lower, Op::none, Symmetry::symmetric, shape, 1, a.matrix(), 2,
                c.matrix(), {});
  CHECK(c.is([&](auto i, auto j) {
    double sum = 0;
    for (std::size_t l = 0; l < shape.cols; ++l) sum += x_at<double>(i, l) * x_at<double>(j, l);
    const double old = x_at<double>(i, j);
    return is_in(Triangle::lower, i, j) ? sum + 2 * old : old;
  }));
}

TEST_CASE("products with a triangle by a scheme, with conversions, are the same")
{
  check_all<std::complex<double>>({}, 37, 29, {.method = Method::collectives});
}

TEST_CASE("products with a triangle of ranks that share no memory are the same")
{
  Mpi::options.share_memory = false;  // for the communicators that are made now
  {
    const boost::mpi::communicator world{MPI_COMM_WORLD, boost::mpi::comm_duplicate};
    check_all<double>(world, 300, 5, {});
  }
  Mpi::options.share_memory = true;
}

TEST_CASE("a B that shares elements with the triangle is refused, and one beside it is not")
{
  const boost::mpi::communicator world;
  Local<double> all{{8, 8}, [](auto i, auto j) { return i == j ? 1.0 : 0.0; }};
  const auto part = [&](std::size_t i, std::size_t j) {
    auto m = all.matrix();
    m.place.i = i;
    m.place.j = j;
    return m;
  };
  ptrsm<double>(world, {.triangle = Triangle::lower}, {4, 4}, 1, part(0, 0), part(0, 4));
  ptrsm<double>(world, {.triangle = Triangle::lower}, {3, 3}, 1, part(0, 0), part(0, 4));
  if (world.size() > 1) return;  // another rank may have the elements
  const auto text = message_of<ArgumentError>([&] {
    const boost::mpi::communicator mine{MPI_COMM_WORLD, boost::mpi::comm_duplicate};
    ptrsm<double>(mine, {.triangle = Triangle::lower}, {4, 4}, 1, part(0, 0), part(2, 0));
  });
  CHECK(mentions(text, "got a B that shares elements with A"));
}

}  // namespace cubist::test::pblas_triangular_test
