// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/matmul/dist_gram.hpp"
#include "cubist/plan/meshes.hpp"
#include "cubist/scheme/catalogue.hpp"
#include "cubist/scheme/gram_grid.hpp"

#include "counted_memory.hpp"
#include "economy.hpp"
#include "products.hpp"

namespace cubist::test::matmul_dist_gram_test
{

using Grid = GramGrid::Axes;
using OnGrid = GramGrid::Weight;

static GlobalMatrix<double> gram_of(const GlobalMatrix<double>& x)
{
  return product(x, transposed(x));
}

TEST_CASE("two ranks multiply a matrix of 2 x 3 by its transpose")
{
  // (1 2 3) (1 4)   (14 32)
  // (4 5 6) (2 5) = (32 77)
  //         (3 6)
  const auto x = GlobalMatrix<double>{
      {2, 3}, [](std::size_t i, std::size_t j) { return static_cast<double>(1 + 3 * i + j); }};
  for (const Grid::Array extents : {Grid::Array{1, 2}, {2, 1}})
  {
    const auto rows = on_ranks<TestBackend>(2, [&](TestBackend::Communicator& world) {
      const AxisMesh<Grid, TestBackend> mesh{world, extents, 1};
      DistGram<double, OnGrid, AxisMesh<Grid, TestBackend>> gram{mesh, 2, 3};
      DistMatrix<double, OnGrid, AxisMesh<Grid, TestBackend>> mine{mesh, {2, 3}};
      load(mine, x);
      const auto a = gram.forward(mine);
      return padded_block(a).data;
    });
    CAPTURE(extents[0], extents[1]);
    if (rows.empty()) return;
    if (extents[0] == 1)
      CHECK(rows == std::vector<std::vector<double>>{{14, 32, 32, 77}, {14, 32, 32, 77}});
    else
      CHECK(rows == std::vector<std::vector<double>>{{14, 32}, {32, 77}});
  }
}

/// Checks all four forms of the product, and the product A A^T of its result A, against the oracle.
template <class L, Op op, class M>
void check_gram(const M& mesh, std::size_t n, std::size_t k, Findings& found,
                Method method = Method::automatic)
{
  const auto x = random_matrix<double>({n, k}, n + 7 * k);
  const auto a = gram_of(x);
  const auto aa = gram_of(a);
  const std::string what = L::to_string() + (op == Op::none ? "" : " transposed") + " on " +
                           M::Axes::to_string(mesh.extents()) + ", " + std::to_string(n) + " x " +
                           std::to_string(k) + ": ";
  using Plan = DistGram<double, L, M, op>;
  using Square = DistGram<double, GramLayout<L, op>, M>;
  Plan plan{mesh, n, k, 0, method};
  Square square{mesh, n, n, plan.output_quanta(), method};
  typename Plan::Input in{mesh, plan.input_shape()};
  load(in, stored(op, x));
  typename Plan::Output out{mesh, {n, n}, plan.output_quanta()};
  auto b = out;
  const auto is = [&](const char* product, const typename Plan::Output& got, auto wanted) {
    check_shard(found, what + product, got, [&](std::size_t i, std::size_t j, double element) {
      return element == wanted(i, j);
    });
  };
  mesh.engine().fill(out.valid(), std::numeric_limits<double>::quiet_NaN());
  plan.forward(in, out);
  is("X X^T", out, a);
  plan.forward(in, out, 2, -3);
  is("2 X X^T - 3 A", out, [&](std::size_t i, std::size_t j) { return -a(i, j); });
  mesh.engine().fill(b.valid(), std::numeric_limits<double>::quiet_NaN());
  square.forward(out, b);
  is("A A", b, aa);
  square.forward(out, out, b, 2, 5);
  is("2 A A + 5 A", b, [&](std::size_t i, std::size_t j) { return 2 * aa(i, j) - 5 * a(i, j); });
}

/// Calls f(mesh) for each mesh of a scheme on all ranks of `world`.
template <SchemeType S, class B, class F>
void on_each_mesh(typename B::Communicator& world, F f)
{
  for_each_mesh<S>(world.size(), [&](const typename S::Axes::Array& e) {
    if (S::Axes::ranks(e) == world.size())
      f(AxisMesh<typename S::Axes, B>{world, e, S::quantum(e)});
  });
}

/// Checks the layouts of a scheme's weights and inputs, on each of its meshes.
template <SchemeType S>
void check_scheme(int ranks)
{
  CAPTURE(S::name, ranks);
  require_clear(on_ranks<TestBackend>(ranks, [](TestBackend::Communicator& world) {
    Findings found;
    found.check(true, "");
    on_each_mesh<S, TestBackend>(world, [&](const auto& mesh) {
      check_gram<typename S::Weight, Op::none>(mesh, 11, 23, found);
      check_gram<typename S::Weight, Op::none>(mesh, 11, 23, found, Method::collectives);
      check_gram<typename S::Weight, Op::transpose>(mesh, 13, 6, found, Method::collectives);
      check_gram<typename S::Input, Op::none>(mesh, 5, 9, found);
    });
    return found;
  }));
}

TEST_CASE("On every scheme, half of the work gives the products of the serial oracle")
{
  for_each_scheme([]<class S>() {
    if (few_schemes_suffice && !is_typical<S>) return;
    for (const int ranks : those_that_fit<TestBackend>(std::vector{1, 2, 3, 4, 6, 8}))
      check_scheme<S>(ranks);
  });
}

TEST_CASE("On a data axis replicas share the work")
{
  for (const int ranks : those_that_fit<TestBackend>(std::vector{2, 4, 8}))
    check_scheme<DataParallel<Summa2D>>(ranks);
}

TEST_CASE("Any number of groups, and sizes that leave ranks without a block, are right")
{
  const auto numbers =
      quick && many_are_slow<TestBackend> ? std::vector{3, 8} : std::vector{1, 2, 3, 4, 5, 6, 7, 8};
  for (const int ranks : those_that_fit<TestBackend>(numbers))
  {
    CAPTURE(ranks);
    require_clear(on_ranks<TestBackend>(ranks, [](TestBackend::Communicator& world) {
      Findings found;
      on_each_mesh<GramGrid, TestBackend>(world, [&](const auto& mesh) {
        for (const Shape s : {Shape{1, 1}, {0, 3}, {3, 0}, {2, 9}, {9, 2}, {16, 16}, {25, 31}})
        {
          check_gram<OnGrid, Op::none>(mesh, s.rows, s.cols, found);
          check_gram<OnGrid, Op::transpose>(mesh, s.rows, s.cols, found);
          check_gram<OnGrid, Op::none>(mesh, s.rows, s.cols, found, Method::collectives);
        }
      });
      return found;
    }));
  }
}

/// The number of elements that the ranks of a grid send for X X^T and for A^2.
struct Sent
{
  std::uint64_t gram = 0;
  std::uint64_t square = 0;
};

static Sent sent_on_grid(Grid::Array e, std::size_t n, std::size_t k)
{
  using B = Counting<TestBackend>;
  using M = AxisMesh<Grid, B>;
  const auto ranks = on_ranks<B>(e[0] * e[1], [&](B::Communicator& world) {
    const M mesh{world, e, 1};
    DistGram<float, OnGrid, M> gram{mesh, n, k};
    DistGram<float, GramGrid::Input, M> square{mesh, n, n};
    const DistMatrix<float, OnGrid, M> x{mesh, {n, k}};
    DistMatrix<float, GramGrid::Input, M> a{mesh, {n, n}}, b{a};
    const auto count = [&](auto call) {
      world.traffic().reset();
      call();
      return world.traffic().total().elements;
    };
    const auto first = count([&] { gram.forward(x, a); });
    const auto second = count([&] { square.forward(a, a, b, 2, 3); });
    return std::vector{first, second};
  });
  Sent sum;
  for (const auto& r : ranks) sum.gram += r[0], sum.square += r[1];
  return sum;
}

TEST_CASE("The ranks send the elements of the formula")
{
  for (const Grid::Array e : {Grid::Array{1, 1}, {1, 6}, {3, 2}, {5, 1}, {2, 1}, {4, 2}, {2, 3}})
    if (fits(e[0] * e[1]))
    {
      CAPTURE(e[0], e[1]);
      const auto r = static_cast<std::uint64_t>(e[0]);
      const auto s = static_cast<std::uint64_t>(e[1]);
      const std::uint64_t n = 24 * r;
      const std::uint64_t k = 60;
      // G N; for an even R it is a quarter of a block less.
      const std::uint64_t rows = r % 2 == 1 ? (r - 1) / 2 * n : r / 2 * n - n / 4;
      const std::uint64_t rest = (s - 1) * n * (n + 1) + s * (n * n - n * n / r) / 2;
      const Sent sent = sent_on_grid(e, n, k);
      CHECK(sent.gram == rows * k + rest);
      CHECK(sent.square == rows * n + rest);
    }
  // Some blocks have fewer rows, or none: on 4 groups 11 rows are 3, 3, 3, 2, and 3 are 1, 1, 1, 0.
  if (!fits(8)) return;
  CHECK(sent_on_grid({4, 2}, 11, 7).gram == detail::gram_elements({3, 3, 3, 2}, 7, 2));
  CHECK(sent_on_grid({4, 2}, 3, 7).gram == detail::gram_elements({1, 1, 1, 0}, 7, 2));
}

TEST_CASE("A product of a matrix with itself allocates its workspace when it is made")
{
  using M = AxisMesh<Grid, CountedThreads>;
  for (const auto& [e, method, needs] : {std::tuple{Grid::Array{1, 2}, Method::automatic, true},
                                         {{2, 1}, Method::automatic, false},
                                         {{2, 1}, Method::collectives, true},
                                         {{2, 2}, Method::collectives, true}})
  {
    CAPTURE(e[0], e[1], static_cast<int>(method));
    const auto bytes =
        on_ranks<CountedThreads>(e[0] * e[1], [&, extents = e, how = method,
                                               is_needed = needs](Threads::Communicator& world) {
          const M mesh{world, extents, 1};
          const DistMatrix<double, OnGrid, M> x{mesh, {40, 30}};
          DistMatrix<double, GramGrid::Input, M> a{mesh, {40, 40}};
          const std::size_t before = counted_bytes.now;
          DistGram<double, OnGrid, M> gram{mesh, 40, 30, 0, how};
          const std::size_t with_plan = counted_bytes.now;
          counted_bytes.peak = with_plan;
          for (int i = 0; i < 3; ++i) gram.forward(x, a, 2, 3);
          const bool is_steady = counted_bytes.peak == with_plan;
          const bool is_told =
              gram.workspace_bytes() == with_plan - before && (with_plan > before) == is_needed;
          gram.release_workspace();
          const bool is_free = counted_bytes.now == before && gram.workspace_bytes() == 0;
          gram.forward(x, a);
          return std::vector{is_steady, is_told, is_free, counted_bytes.now == with_plan};
        });
    for (const auto& rank : bytes) CHECK(rank == std::vector(4, true));
  }
}

TEST_CASE("A product of a matrix with itself refuses matrices that do not fit")
{
  using M = AxisMesh<Grid, TestBackend>;
  const auto errors = on_ranks<TestBackend>(1, [](TestBackend::Communicator& world) {
    const M mesh{world, {1, 1}, 1};
    DistGram<double, OnGrid, M> gram{mesh, 3, 5};
    DistGram<double, GramGrid::Input, M> square{mesh, 3, 3};
    const DistMatrix<double, OnGrid, M> x{mesh, {3, 5}}, other{mesh, {5, 3}};
    DistMatrix<double, GramGrid::Input, M> a{mesh, {3, 3}}, wide{mesh, {3, 5}};
    return std::vector{message_of<ShapeError>([&] { gram.forward(other, a); }),
                       message_of<ShapeError>([&] { gram.forward(x, wide); }),
                       message_of<ArgumentError>([&] { square.forward(a, a); }),
                       message_of<MeshError>([&] {
                         DistGram<double, OnGrid, M>{M{world, {1, 1}, 2}, 3, 5, 3};
                       })};
  });
  if (errors.empty()) return;
  CHECK(mentions(errors[0][0], "X is (5, 3)", "needs (3, 5)"));
  CHECK(mentions(errors[0][1], "A0 is (3, 5)", "needs (3, 3)"));
  CHECK(mentions(errors[0][2], "got the same matrix for A and for another operand"));
  CHECK(mentions(errors[0][3], "quantum of 2"));
}

}  // namespace cubist::test::matmul_dist_gram_test
