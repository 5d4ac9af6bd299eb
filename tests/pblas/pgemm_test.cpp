// SPDX-License-Identifier: BSD-3-Clause
#include <random>

#include <mpi.h>

#include "backend.hpp"
#include "catch.hpp"
#include "foreign_matrices.hpp"
#include "session.hpp"
#include "shared_product.hpp"

using namespace cubist;

/// Whether something holds on all processes, all of which must ask.
static bool everywhere(bool holds)
{
  int all = holds ? 1 : 0;
  MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  return all == 1;
}

/// Grids of all processes, and of fewer.
static std::vector<ProcessGrid> grids()
{
  const boost::mpi::communicator world;
  std::vector<ProcessGrid> all{{1, 1}};
  for (int rows = 1; rows <= world.size(); ++rows)
    for (const auto order : {StorageOrder::row_major, StorageOrder::column_major})
      if (world.size() % rows == 0) all.push_back({rows, world.size() / rows, order});
  return all;
}

template <class T>
T element(std::size_t i, std::size_t j, std::size_t seed)
{
  const auto number = [](std::size_t n, int shift) {
    return static_cast<float>(static_cast<int>(n) - shift);
  };
  const float real = number((3 * i + 5 * j + seed) % 7, 3);
  if constexpr (ComplexScalar<T>)
    return {real, number((2 * i + j + seed) % 5, 2)};
  else
    return real;
}

/// A sub-matrix with its local array, found index by index.
template <class T>
struct LocalMatrix
{
  LocalMatrix(SubMatrixPlace where, std::size_t seed)
      : place{where}
  {
    const auto& layout = place.layout;
    const int rank = boost::mpi::communicator{}.rank();
    const auto& grid = layout.grid;
    if (rank < grid.size())
    {
      rows = test::cyclic_indices(layout.shape.rows, layout.first_block.rows, layout.block.rows,
                                  layout.row_source, grid.row(rank), grid.rows);
      cols = test::cyclic_indices(layout.shape.cols, layout.first_block.cols, layout.block.cols,
                                  layout.col_source, grid.col(rank), grid.cols);
    }
    ld = rows.size() + 2;
    array.assign(ld * cols.size(), T{-99});
    for (std::size_t j = 0; j < cols.size(); ++j)
      for (std::size_t i = 0; i < rows.size(); ++i)
        array[i + j * ld] = element<T>(rows[i], cols[j], seed);
  }

  [[nodiscard]] BlockCyclicMatrix<T> matrix() { return {place, array.data(), ld}; }

  SubMatrixPlace place;
  std::vector<std::size_t> rows;  // global indices
  std::vector<std::size_t> cols;
  std::size_t ld = 0;
  std::vector<T> array;
};

/// Element (i, j) of op(S), where S is the sub-matrix that LocalMatrix fills.
template <class T>
T op_element(Op op, const SubMatrixPlace& place, std::size_t seed, std::size_t i, std::size_t j)
{
  if (op != Op::none) std::swap(i, j);
  const T x = element<T>(place.i + i, place.j + j, seed);
  if constexpr (ComplexScalar<T>)
    return op == Op::adjoint ? std::conj(x) : x;
  else
    return x;
}

/// Whether C, which was element(.., 3), is what expected(i, j, C(i, j)) says inside the sub-matrix,
/// and is unchanged elsewhere.
template <class T, class F>
bool is_right(const LocalMatrix<T>& c, Shape shape, F expected)
{
  const LocalMatrix<T> before{c.place, 3};
  auto wanted = before.array;
  for (std::size_t j = 0; j < c.cols.size(); ++j)
    for (std::size_t i = 0; i < c.rows.size(); ++i)
    {
      const std::size_t row = c.rows[i] - c.place.i;
      const std::size_t col = c.cols[j] - c.place.j;
      T& x = wanted[i + j * c.ld];
      if (row < shape.rows && col < shape.cols) x = expected(row, col, x);
    }
  return c.array == wanted;
}

static SubMatrixPlace some_place(Shape shape, const ProcessGrid& grid, std::size_t variant)
{
  const std::size_t i = variant % 3;
  const std::size_t j = variant % 2 * 5;
  return {{.shape = {shape.rows + i + 1, shape.cols + j},
           .block = {1 + variant * 3 % 8, 1 + variant * 5 % 7},
           .grid = grid,
           .row_source = static_cast<int>(variant) % grid.rows,
           .col_source = static_cast<int>(variant / 2) % grid.cols,
           .first_block = variant % 2 == 0 ? Shape{} : Shape{2, 3}},
          i,
          j};
}

template <class T>
void check_products(const boost::mpi::communicator& world, Method method)
{
  std::size_t variant = 0;
  for (const auto& grid : grids())
    for (const auto& [m, n, k] : {ProductSize{23, 17, 31}, {1, 40, 3}, {6, 5, 700}})
      for (const Op op_a : {Op::none, Op::transpose, Op::adjoint})
      {
        const Op op_b = variant % 2 == 0   ? Op::none
                        : variant % 3 == 0 ? Op::adjoint
                                           : Op::transpose;
        LocalMatrix<T> a{some_place(op_shape(op_a, {m, k}), grid, ++variant), 1};
        LocalMatrix<T> b{some_place(op_shape(op_b, {k, n}), grid, ++variant), 2};
        LocalMatrix<T> c{some_place({m, n}, grid, ++variant), 3};
        const T alpha = element<T>(variant, 1, 0);
        const T beta = element<T>(1, variant, 0);
        pgemm<T>(world, op_a, op_b, {m, n, k}, alpha, a.matrix(), b.matrix(), beta, c.matrix(),
                 {.method = method});
        const bool right = is_right(c, {m, n}, [&, depth = k](std::size_t i, std::size_t j, T x) {
          T sum{};
          for (std::size_t l = 0; l < depth; ++l)
            sum += op_element<T>(op_a, a.place, 1, i, l) * op_element<T>(op_b, b.place, 2, l, j);
          return alpha * sum + beta * x;
        });
        CAPTURE(grid.rows, grid.cols, m, n, k, int(op_a), int(op_b));
        CHECK(everywhere(right));
      }
}

TEST_CASE("pgemm of ranks that share memory computes sub-matrices of any layouts")
{
  check_products<double>({}, Method::automatic);
  check_products<std::complex<float>>({}, Method::automatic);
}

TEST_CASE("pgemm by a scheme, with conversions, computes the same")
{
  check_products<double>({}, Method::collectives);
}

TEST_CASE("pgemm by a scheme is right where it takes indices in the order of the processes")
{
  const boost::mpi::communicator world;
  const ProductSize size{23, 17, 31};
  const auto [m, n, k] = size;
  for (const auto& grid : grids())
    for (const Op op_a : {Op::none, Op::adjoint})
      for (const Op op_b : {Op::none, Op::transpose})
      {
        const auto place = [&](Shape shape) {
          return SubMatrixPlace{
              {.shape = {shape.rows + 7, shape.cols + 7}, .block = {3, 3}, .grid = grid}, 7, 7};
        };
        using T = std::complex<double>;
        LocalMatrix<T> a{place(op_shape(op_a, {m, k})), 1};
        LocalMatrix<T> b{place(op_shape(op_b, {k, n})), 2};
        LocalMatrix<T> c{place({m, n}), 3};
        pgemm<T>(world, op_a, op_b, size, T{1}, a.matrix(), b.matrix(), T{2}, c.matrix(),
                 {.method = Method::collectives});
        CAPTURE(grid.rows, grid.cols, int(op_a), int(op_b));
        CHECK(everywhere(is_right(c, {m, n}, [&](std::size_t i, std::size_t j, T x) {
          T sum{};
          for (std::size_t l = 0; l < size.k; ++l)
            sum += op_element<T>(op_a, a.place, 1, i, l) * op_element<T>(op_b, b.place, 2, l, j);
          return sum + 2.0 * x;
        })));
      }
}

TEST_CASE("pgemm of ranks that share no memory, as on several nodes, computes the same in messages")
{
  Mpi::options.share_memory = false;  // for the communicators that are made now
  const boost::mpi::communicator world{MPI_COMM_WORLD, boost::mpi::comm_duplicate};
  check_products<double>(world, Method::automatic);
  Mpi::options.share_memory = true;
}

TEST_CASE("pgemm in slabs of K, for which less shared memory suffices, computes the same")
{
  if (!test::one_node()) return;
  const boost::mpi::communicator world;
  const ProcessGrid grid{1, world.size()};
  const ProductSize size{40, 30, 1000};
  LocalMatrix<double> a{{{.shape = {40, 1000}, .block = {8, 8}, .grid = grid}}, 1};
  LocalMatrix<double> b{{{.shape = {1000, 30}, .block = {8, 8}, .grid = grid}}, 2};
  LocalMatrix<double> c{{{.shape = {40, 30}, .block = {8, 8}, .grid = grid}}, 3};
  PgemmReport report;
  pgemm(world, Op::none, Op::none, size, 1.0, a.matrix(), b.matrix(), 2.0, c.matrix(),
        {.shared_bytes = 1, .report = &report});
  CHECK(everywhere(is_right(c, {40, 30}, [&](std::size_t i, std::size_t j, double x) {
    double sum = 2 * x;
    for (std::size_t l = 0; l < size.k; ++l)
      sum += element<double>(i, l, 1) * element<double>(l, j, 2);
    return sum;
  })));
  CHECK_THAT(report.chosen, Catch::Matchers::ContainsSubstring("4 slabs of K"));
}

TEST_CASE("a product in shared memory that is cut, and in slabs of K as well, sums all slabs")
{
  const boost::mpi::communicator world;
  if (!test::one_node() || world.size() == 1) return;
  constexpr std::size_t m = 100, n = 80, depth = 1000;
  const auto place = [](Shape shape) { return SubMatrixPlace{{.shape = shape, .block = {8, 8}}}; };
  LocalMatrix<double> a{place({m, depth}), 1}, b{place({depth, n}), 2}, c{place({m, n}), 3};
  // As many cores as ranks, whatever this computer has; one rank has C.
  const detail::SharedProduct<double> product{
      {Op::none, Op::none, {m, n, depth}, a.place, b.place, c.place},
      world.rank(),
      world.size(),
      world.size(),
      1};
  CHECK(product.cut());
  CHECK(product.slabs() == 4);
  auto& session = detail::PblasSession::of(world);
  const auto array_of = [](const LocalMatrix<double>& x) {
    return LocalArray<const double>{x.array.data(), x.ld};
  };
  PgemmReport report;
  product.run(session.world(), session.shared(), 0, 1, 1.0, array_of(a), array_of(b), 2.0,
              LocalArray<double>{c.array.data(), c.ld}, report);
  CHECK(everywhere(is_right(c, {m, n}, [](std::size_t i, std::size_t j, double x) {
    double sum = 2 * x;
    for (std::size_t l = 0; l < depth; ++l)
      sum += element<double>(i, l, 1) * element<double>(l, j, 2);
    return sum;
  })));
}

/// Whether f throws an error that mentions a text on all ranks. It gets a new communicator, because
/// an error ends a communicator's products.
template <class F>
bool throws_everywhere(const std::string& text, F f)
{
  const boost::mpi::communicator all;
  const boost::mpi::communicator world{all, boost::mpi::comm_duplicate};
  std::string message;
  try
  {
    f(world);
  }
  catch (const Error& e)
  {
    message = e.what();
  }
  const bool found = message.find(text) != std::string::npos;
  if (!found) UNSCOPED_INFO("rank " << all.rank() << " has '" << message << "'");
  return everywhere(found);
}

static std::size_t sum_of_ranks(std::size_t n)
{
  auto sum = static_cast<unsigned long>(n);
  MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_UNSIGNED_LONG, MPI_SUM, MPI_COMM_WORLD);
  return sum;
}

/// The bytes of memory that the arenas of all ranks have from the system, without free pages.
static std::size_t arena_bytes()
{
  SharedArena::mine().trim();
  struct stat file
  {
  };
  fstat(SharedArena::mine().name().file, &file);
  auto bytes = static_cast<unsigned long>(file.st_blocks) * 512;
  MPI_Barrier(MPI_COMM_WORLD);  // the last rank has ended the product
  MPI_Allreduce(MPI_IN_PLACE, &bytes, 1, MPI_UNSIGNED_LONG, MPI_SUM, MPI_COMM_WORLD);
  return bytes;
}

/// Multiplies n x n matrices, and returns the bytes of all three on all ranks.
static std::size_t multiply(const boost::mpi::communicator& world, std::size_t n,
                            PgemmOptions options)
{
  const SubMatrixPlace place{
      {.shape = {n, n}, .block = {16, 16}, .grid = {1, boost::mpi::communicator{}.size()}}};
  LocalMatrix<double> a{place, 1};
  LocalMatrix<double> c{place, 3};
  pgemm(world, Op::none, Op::none, {n, n, n}, 1.0, a.matrix(), a.matrix(), 0.0, c.matrix(),
        options);
  return 3 * n * n * sizeof(double);
}

TEST_CASE("workspace that pgemm keeps between calls is bounded, counted and freed")
{
  const boost::mpi::communicator all;
  const auto ranks = static_cast<std::size_t>(all.size());
  const std::size_t slack = ranks * 100'000;  // pages that are partly used, and flags of ranks
  Mpi::options.share_memory = false;          // for the communicators that are made now
  const boost::mpi::communicator world{all, boost::mpi::comm_duplicate};
  const std::size_t before = arena_bytes();
  PgemmReport report;
  std::size_t largest = 0;
  for (std::size_t n = 300; n < 320; n += 4)
    largest = std::max(largest, multiply(world, n, {.report = &report}));
  CHECK(arena_bytes() - before <= largest / 2 + slack);
  CHECK(everywhere(report.kept * ranks <= largest / 2));
  CHECK(sum_of_ranks(report.kept) > largest / 8);
  CHECK_THAT(report.chosen, Catch::Matchers::ContainsSubstring("kept for later calls"));
  // A loop keeps what it needs until there is a call that was not there before.
  multiply(world, 300, {.report = &report});
  CHECK(sum_of_ranks(report.kept) > largest / 2);
  CHECK(arena_bytes() - before <= 3 * largest + slack);
  multiply(world, 320, {.report = &report});
  CHECK(everywhere(report.kept * ranks <= largest));
  multiply(world, 300, {.kept = 100, .report = &report});
  CHECK(sum_of_ranks(report.kept) > largest / 2);
  multiply(world, 300, {.kept = 0, .report = &report});
  CHECK(everywhere(report.kept == 0));
  CHECK(arena_bytes() - before <= slack);
  Mpi::options.share_memory = true;

  if (!test::one_node()) return;
  const boost::mpi::communicator sharing{all, boost::mpi::comm_duplicate};
  const std::size_t larger = multiply(sharing, 400, {.report = &report});
  CHECK(everywhere(report.kept <= larger && report.kept >= larger / 2));
  CHECK(arena_bytes() - before <= larger + slack);
  multiply(sharing, 40, {.kept = 0.25, .report = &report});
  CHECK(everywhere(report.kept == larger / 4));
  CHECK(arena_bytes() - before <= larger / 4 + slack);
  multiply(sharing, 400, {.kept = 0, .report = &report});
  CHECK(everywhere(report.kept == 0));
  CHECK(throws_everywhere("as the fraction of workspace that is kept",
                          [](const auto& w) { multiply(w, 40, {.kept = -1.0}); }));
}

TEST_CASE("pgemm whose K is cut adds up columns of more than 512 elements")
{
  const boost::mpi::communicator world;
  const ProcessGrid grid{1, world.size()};
  const ProductSize size{1100, 4, 6000};
  const auto place = [&](Shape shape) {
    return SubMatrixPlace{{.shape = shape, .block = {1100, 1}, .grid = grid}};
  };
  LocalMatrix<float> a{place({size.m, size.k}), 1};
  LocalMatrix<float> b{place({size.k, size.n}), 2};
  LocalMatrix<float> c{place({size.m, size.n}), 3};
  PgemmReport report;
  pgemm(world, Op::none, Op::none, size, 1.0F, a.matrix(), b.matrix(), 2.0F, c.matrix(),
        {.report = &report});
  // Elements repeat with period 7, and the sums are integers.
  CHECK(everywhere(is_right(c, {size.m, size.n}, [&](std::size_t i, std::size_t j, float x) {
    float period = 0;
    float rest = 0;
    for (std::size_t l = 0; l < 7; ++l)
    {
      const float term = element<float>(i, l, 1) * element<float>(l, j, 2);
      period += term;
      if (l < size.k % 7) rest += term;
    }
    return static_cast<float>(size.k / 7) * period + rest + 2 * x;
  })));
  if (!test::one_node() || world.size() == 1) return;
  const auto parts = report.chosen.find(" parts");
  REQUIRE(parts != std::string::npos);
  CHECK(report.chosen.substr(parts - 4, 4) != " x 1");  // K is cut
}

TEST_CASE("with alpha 0 or without inner indices pgemm scales C, and reads neither A nor B")
{
  const boost::mpi::communicator world;
  const ProcessGrid grid{world.size(), 1};
  const SubMatrixPlace place{{.shape = {9, 9}, .block = {2, 2}, .grid = grid}, 1, 2};
  LocalMatrix<double> c{place, 3};
  pgemm(world, Op::none, Op::none, {5, 4, 6}, 0.0, {place, nullptr, 9}, {place, nullptr, 9}, 3.0,
        c.matrix());
  pgemm(world, Op::none, Op::none, {5, 4, 0}, 7.0, {place, nullptr, 9}, {place, nullptr, 9}, -1.0,
        c.matrix());
  CHECK(everywhere(is_right(c, {5, 4}, [](auto, auto, double x) { return -3 * x; })));
  pgemm(world, Op::none, Op::none, {0, 4, 6}, 1.0, {place, nullptr, 9}, {place, nullptr, 9}, 3.0,
        c.matrix());
  CHECK(everywhere(is_right(c, {5, 4}, [](auto, auto, double x) { return -3 * x; })));
}

TEST_CASE("padd adds op of a sub-matrix, or one trapezoid of it")
{
  using T = std::complex<double>;
  const boost::mpi::communicator world;
  std::size_t variant = 0;
  for (const auto& grid : grids())
    for (const Op op : {Op::none, Op::transpose, Op::adjoint})
      for (const Shape shape : {Shape{14, 9}, {7, 20}})
        for (const int part : {0, 1, 2})
        {
          LocalMatrix<T> a{some_place(op_shape(op, shape), grid, ++variant), 1};
          LocalMatrix<T> c{some_place(shape, grid, ++variant), 3};
          const T alpha = element<T>(variant, 1, 0);
          const T beta = element<T>(1, variant, 0);
          const auto which = std::array{MatrixPart::all, MatrixPart::upper,
                                        MatrixPart::lower}[static_cast<std::size_t>(part)];
          padd<T>(world, op, shape, alpha, a.matrix(), beta, c.matrix(), which);
          CAPTURE(grid.rows, grid.cols, int(op), part);
          CHECK(everywhere(is_right(c, shape, [&](std::size_t i, std::size_t j, T x) {
            if (part != 0 && (which == MatrixPart::upper ? j < i : j > i)) return x;
            return alpha * op_element<T>(op, a.place, 1, i, j) + beta * x;
          })));
        }
}

TEST_CASE("a wrong argument is an error on all ranks that names it, even if one rank knows it")
{
  const boost::mpi::communicator all;
  const ProcessGrid grid{1, all.size()};
  const SubMatrixPlace place{{.shape = {8, 8}, .block = {1, 1}, .grid = grid}};
  // The fault is in A, B and C, one after the other, and in A and C of a transpose, for which all
  // ranks wait for each other.
  const auto fails = [&](const std::string& text, auto change) {
    bool each = true;
    for (const std::string name : {"A", "B", "C"})
    {
      const auto at = text.find('$');
      const std::string named = text.substr(0, at) + name + text.substr(at + 1);
      const auto run = [&](bool sum) {
        return throws_everywhere(named, [&](const boost::mpi::communicator& world) {
          LocalMatrix<double> x{place, 1};
          LocalMatrix<double> y{place, 2};
          LocalMatrix<double> z{place, 3};
          auto a = x.matrix();
          auto b = y.matrix();
          auto c = z.matrix();
          change(name == "A" ? a : name == "B" ? b : c);
          if (sum)
            padd(world, Op::transpose, {8, 8}, 1.0, a, 0.0, c);
          else
            pgemm(world, Op::none, Op::none, {8, 8, 8}, 1.0, a, b, 0.0, c);
        });
      };
      each = each && run(false) && (name == "B" || run(true));
    }
    return each;
  };
  CHECK(
      fails("got a sub-matrix of (8, 8) at (1, 0) of $ of (8, 8)", [](auto& x) { x.place.i = 1; }));
  CHECK(fails("at (0, 0) of $ of (8, 7)", [](auto& x) { x.place.layout.shape.cols = 7; }));
  CHECK(fails(" for $, which hold nothing", [](auto& x) { x.place.layout.block.rows = 0; }));
  CHECK(fails("got $ with its first block on process (1, 0)",
              [](auto& x) { x.place.layout.row_source = 1; }));
  CHECK(fails("got $ of " + std::to_string(3 * all.size()) + " ranks on a communicator of",
              [](auto& x) { x.place.layout.grid.rows = 3; }));
  CHECK(fails(" processes for $, so no", [](auto& x) { x.place.layout.grid.rows = 0; }));
  CHECK(fails("got $ with row-major arrays",
              [](auto& x) { x.place.layout.order = StorageOrder::row_major; }));
  CHECK(fails("local array of $ with a leading dimension of 7", [&](auto& x) {
    if (all.rank() == all.size() - 1) x.ld = 7;
  }));
  CHECK(fails(" elements of $, so there is nothing to read", [&](auto& x) {
    if (all.rank() == 0) x.data = nullptr;
  }));
}

TEST_CASE("a rank that has no elements of the sub-matrices needs no arrays")
{
  const boost::mpi::communicator all;
  const ProcessGrid grid{all.size(), 1};
  // Each sub-matrix is a single block, which lies on the last process.
  const std::size_t first = 8 * (static_cast<std::size_t>(all.size()) - 1);
  const SubMatrixPlace place{{.shape = {first + 8, 8}, .block = {8, 8}, .grid = grid}, first, 0};
  LocalMatrix<double> a{place, 1}, c{place, 3};
  const auto array = [&](LocalMatrix<double>& x) {
    auto matrix = x.matrix();
    if (all.rank() < all.size() - 1) matrix.data = nullptr;
    return matrix;
  };
  const auto is_product = [&](double alpha, double beta) {
    return everywhere(is_right(c, {8, 8}, [&](std::size_t i, std::size_t j, double x) {
      double sum = 0;
      for (std::size_t l = 0; l < 8; ++l)
        sum += element<double>(first + i, l, 1) * element<double>(first + l, j, 1);
      return alpha * sum + beta * x;
    }));
  };
  for (const Method method : {Method::automatic, Method::collectives})
  {
    c = {place, 3};
    pgemm(all, Op::none, Op::none, {8, 8, 8}, 2.0, array(a), array(a), 3.0, array(c),
          {.method = method});
    CHECK(is_product(2, 3));
  }
  c = {place, 3};
  padd(all, Op::none, {8, 8}, 2.0, array(a), 3.0, array(c));
  CHECK(everywhere(is_right(c, {8, 8}, [&](std::size_t i, std::size_t j, double x) {
    return 2 * element<double>(first + i, j, 1) + 3 * x;
  })));
}

TEST_CASE("sub-matrices of one array are multiplied, unless C has elements of A or B")
{
  const boost::mpi::communicator all;
  const ProcessGrid grid{1, all.size()};
  const SubMatrixPlace place{{.shape = {20, 20}, .block = {3, 2}, .grid = grid}};
  const auto from_row = [](BlockCyclicMatrix<double> x, std::size_t row) {
    x.place.i = row;
    return x;
  };
  LocalMatrix<double> a{place, 3};
  const auto upper = a.matrix();
  pgemm(all, Op::none, Op::none, {8, 8, 8}, 1.0, upper, upper, 0.0, from_row(upper, 9));
  a.place.i = 9;
  CHECK(everywhere(is_right(a, {8, 8}, [](std::size_t i, std::size_t j, double) {
    double sum = 0;
    for (std::size_t l = 0; l < 8; ++l) sum += element<double>(i, l, 3) * element<double>(l, j, 3);
    return sum;
  })));

  LocalMatrix<double> other{place, 1};
  for (const bool is_a : {true, false})
    CHECK(throws_everywhere(
        is_a ? "got a C that shares elements with A" : "got a C that shares elements with B",
        [&](const boost::mpi::communicator& world) {
          pgemm(world, Op::none, Op::none, {8, 8, 8}, 1.0, is_a ? upper : other.matrix(),
                is_a ? other.matrix() : upper, 0.0, from_row(upper, 7));
        }));
  CHECK(throws_everywhere("got a C that shares elements with A", [&](const auto& world) {
    padd(world, Op::none, {8, 20}, 1.0, upper, 0.0, from_row(upper, 7));
  }));
}

TEST_CASE(
    "padd in place computes what a serial loop does, and refuses a sum that reads what it overwrites")
{
  using T = std::complex<double>;
  const boost::mpi::communicator world;
  std::mt19937 random{7};
  const auto below = [&](std::size_t n) { return random() % n; };
  int computed = 0;
  int refused = 0;
  for (int run = 0; run < 400; ++run)
  {
    const auto all = grids();
    const ProcessGrid grid = all[below(all.size())];
    const Op op = std::array{Op::none, Op::transpose, Op::adjoint}[below(3)];
    const MatrixPart part =
        std::array{MatrixPart::all, MatrixPart::upper, MatrixPart::lower}[below(3)];
    const Shape shape{1 + below(7), below(3) > 0 ? 1 + below(7) : 1};
    const BlockCyclic layout{.shape = {9, 9},
                             .block = {1 + below(4), 1 + below(3)},
                             .grid = grid,
                             .row_source = static_cast<int>(below(2)) % grid.rows,
                             .col_source = below(9) > 0 ? 0 : -1};
    const SubMatrixPlace to{layout, below(3), below(3)};
    const SubMatrixPlace from{layout, below(2) > 0 ? to.i : below(3),
                              below(2) > 0 ? to.j : below(3)};
    CAPTURE(run, grid.rows, grid.cols, int(op), int(part), shape.rows, shape.cols, from.i, from.j,
            to.i, to.j);

    // The serial loop: each element of the array goes to one element of the sum, or to none.
    const auto place_in_a = [&](std::size_t i, std::size_t j) {
      if (op != Op::none) std::swap(i, j);
      return std::pair{from.i + i, from.j + j};
    };
    std::map<std::pair<std::size_t, std::size_t>, std::pair<std::size_t, std::size_t>> read;
    std::vector<std::pair<std::size_t, std::size_t>> sums;
    for (std::size_t i = 0; i < shape.rows; ++i)
      for (std::size_t j = 0; j < shape.cols; ++j)
        if (part == MatrixPart::all || (part == MatrixPart::upper ? i <= j : i >= j))
        {
          sums.emplace_back(i, j);
          read[place_in_a(i, j)] = {i, j};
        }
    const T alpha = element<T>(below(9), 1, 0);
    const T beta = below(3) == 0 ? T{1} : element<T>(1, below(9), 0);
    const bool may_be_same = part == MatrixPart::all || beta == T{1};
    bool overwrites = false;
    for (const auto& sum : sums)
    {
      const auto found = read.find({to.i + sum.first, to.j + sum.second});
      if (found != read.end() && (found->second != sum || !may_be_same)) overwrites = true;
    }

    LocalMatrix<T> c{to, 3};
    auto a = c.matrix();
    a.place = from;
    bool refuses = false;
    for (int rank = 0; rank < grid.size(); ++rank) try
      {
        detail::require_apart_in_sum<T>(op, part, a, beta, c.matrix(), shape, rank);
      }
      catch (const ArgumentError&)
      {
        refuses = true;
      }
    CHECK(refuses == overwrites);
    ++(overwrites ? refused : computed);
    if (overwrites || refuses) continue;
    padd<T>(world, op, shape, alpha, a, beta, c.matrix(), part);
    CHECK(everywhere(is_right(c, shape, [&](std::size_t i, std::size_t j, T x) {
      if (std::find(sums.begin(), sums.end(), std::pair{i, j}) == sums.end()) return x;
      return alpha * op_element<T>(op, from, 3, i, j) + beta * x;
    })));
  }
  CHECK(computed > 50);
  CHECK(refused > 50);
}

TEST_CASE("communicators are made and freed again, and their products end with them")
{
  const boost::mpi::communicator all;
  const SubMatrixPlace place{{.shape = {8, 8}, .block = {1, 1}, .grid = {1, all.size()}}};
  bool right = true;
  for (int run = 0; run < 30; ++run)
  {
    const boost::mpi::communicator world{all, boost::mpi::comm_duplicate};
    LocalMatrix<double> a{place, 1};
    LocalMatrix<double> c{place, 3};
    pgemm(world, Op::none, Op::none, {8, 8, 1}, 1.0, a.matrix(), a.matrix(), 0.0, c.matrix());
    right = right && is_right(c, {8, 8}, [](std::size_t i, std::size_t j, double) {
              return element<double>(i, 0, 1) * element<double>(0, j, 1);
            });
  }
  CHECK(everywhere(right));
}
