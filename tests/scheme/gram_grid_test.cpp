// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/matmul/dist_gram.hpp"
#include "cubist/matmul/dist_matmul.hpp"
#include "cubist/matrix/redistribute.hpp"
#include "cubist/scheme/gram_grid.hpp"

#include "extents.hpp"
#include "products.hpp"

namespace cubist::test::scheme_gram_grid_test
{

using Array = GramGrid::Axes::Array;

/// Computes X after some iterations of A = X X^T, B = -2 A + A^2, X <- 3 X + B X, in integers.
static GlobalMatrix<double> iterated(GlobalMatrix<double> x, int iterations)
{
  for (int i = 0; i < iterations; ++i)
  {
    const auto a = product(x, transposed(x));
    auto b = product(a, a);
    for (std::size_t e = 0; e < b.data.size(); ++e) b.data[e] -= 2 * a.data[e];
    const auto bx = product(b, x);
    for (std::size_t e = 0; e < x.data.size(); ++e) x.data[e] = 3 * x.data[e] + bx.data[e];
  }
  return x;
}

/// Iterates on a grid, in the grid's layouts. Returns how many of this rank's elements are wrong,
/// and how many elements it sent in the last iteration.
template <BackendType B>
std::pair<std::size_t, std::uint64_t> iterate(const AxisMesh<GramGrid::Axes, B>& mesh,
                                              const GlobalMatrix<double>& global, int iterations)
{
  using M = AxisMesh<GramGrid::Axes, B>;
  const auto [m, n] = global.shape;
  DistGram<double, GramGrid::Weight, M> gram{mesh, m, n};
  DistGram<double, GramGrid::Input, M> square{mesh, m, m};
  DistMatMul<GramGrid, B, double> times{
      mesh, {.m = m, .n = n, .k = m}, Gathered::again, Method::collectives};
  DistMatrix<double, GramGrid::Weight, M> x{mesh, {m, n}}, next{x};
  DistMatrix<double, GramGrid::Input, M> a{mesh, {m, m}}, b{a};
  load(x, global);
  std::uint64_t sent = 0;
  for (int i = 0; i < iterations; ++i)
  {
    if constexpr (requires { mesh.world().traffic(); }) mesh.world().traffic().reset();
    gram.forward(x, a);
    square.forward(a, a, b, 1, -2);
    next = x;
    times.forward(b, x, next, 1, 3);
    std::swap(x, next);
    if constexpr (requires { mesh.world().traffic(); })
      sent = mesh.world().traffic().total().elements;
  }
  const auto wanted = iterated(global, iterations);
  std::size_t wrong = 0;
  const auto mine = shard_of(x);
  for (std::size_t i = 0; i < mine.block.rows.valid; ++i)
    for (std::size_t j = 0; j < mine.block.cols.valid; ++j)
      wrong += mine.padded(i, j) == wanted(mine.block.rows.offset + i, mine.block.cols.offset + j)
                   ? 0
                   : 1;
  return {wrong, sent};
}

TEST_CASE("two iterations of Newton-Schulz on a grid give the integers of the serial ones")
{
  const GlobalMatrix<double> x{{5, 6}, [](std::size_t i, std::size_t j) {
                                 return i == j || i + 4 == j ? 1.0 : i == j + 3 ? -1.0 : 0.0;
                               }};
  for (const Array e : {Array{1, 1}, {1, 3}, {2, 1}, {2, 3}, {4, 2}, {6, 1}})
  {
    CAPTURE(e[0], e[1]);
    for (const auto& [wrong, sent] :
         on_ranks<TestBackend>(e[0] * e[1], [&](TestBackend::Communicator& world) {
           const AxisMesh<GramGrid::Axes, TestBackend> mesh{world, e, 1};
           return iterate<TestBackend>(mesh, x, 2);
         }))
      CHECK(wrong == 0);
  }
}

TEST_CASE("an iteration sends as many elements as predicted")
{
  using B = Counting<TestBackend>;
  for (const Array e : {Array{1, 4}, {2, 2}, {3, 2}, {4, 1}})
    for (const Shape s : {Shape{12, 24}, {7, 9}})
    {
      if (!fits(e[0] * e[1])) continue;
      CAPTURE(e[0], e[1], s.rows, s.cols);
      const auto x = random_matrix<double>(s, 1);
      std::uint64_t all = 0;
      for (const auto& [wrong, sent] : on_ranks<B>(e[0] * e[1], [&](B::Communicator& world) {
             const AxisMesh<GramGrid::Axes, B> mesh{world, e, 1};
             return iterate<B>(mesh, x, 1);
           }))
      {
        CHECK(wrong == 0);
        all += sent;
      }
      CHECK(all == GramGrid::elements_of_iteration(e, s.rows, s.cols));
    }
}

TEST_CASE("a grid has few rows on few ranks or for a wide matrix, and more on many")
{
  CHECK(GramGrid::best_extents(1, 1024, 1024) == Array{1, 1});
  CHECK(GramGrid::best_extents(3, 1024, 1024) == Array{1, 3});
  CHECK(GramGrid::best_extents(4, 1024, 1024) == Array{2, 2});
  CHECK(GramGrid::best_extents(4, 1024, 4096) == Array{1, 4});
  CHECK(GramGrid::best_extents(7, 1024, 4096) == Array{1, 7});
  for (const int ranks : {2, 6, 16, 64})
    for (const Shape s : {Shape{1024, 1024}, {1024, 4096}, {37, 101}, {1, 5}})
    {
      const Array best = GramGrid::best_extents(ranks, s.rows, s.cols);
      CHECK(best[0] * best[1] == ranks);
      for (int r = 1; r <= ranks; ++r)
        if (ranks % r == 0)
          CHECK(GramGrid::elements_of_iteration(best, s.rows, s.cols) <=
                GramGrid::elements_of_iteration({r, ranks / r}, s.rows, s.cols));
    }
  CHECK(GramGrid::best_extents(64, 1024, 1024)[0] > 1);
  CHECK(GramGrid::best_extents(8, 1024, 4096, true) == Array{8, 1});
  CHECK(GramGrid::best_extents(8, 5, 9, true) == Array{4, 2});
  CHECK(GramGrid::best_extents(8, 0, 9, true) == Array{1, 8});
  CHECK(GramGrid::extents({}, 8) == Array{2, 4});
  CHECK(GramGrid::extents({.rows = 4}, 8) == Array{4, 2});
  CHECK(mentions(extents_error<GramGrid>({.rows = 3}, 8), "GramGrid got {.rows = 3} for 8 ranks"));
}

TEST_CASE("a weight goes to the grid of all of its ranks, replicas included, and back")
{
  if (!fits(8)) return;
  const auto w = random_matrix<double>({9, 14}, 1);
  require_clear(on_ranks<TestBackend>(8, [&](TestBackend::Communicator& world) {
    const Mesh<Summa25D, TestBackend> mesh{world, {.q = 2, .d = 2}};
    using M = AxisMesh<GramGrid::Axes, TestBackend>;
    const M grid{world, GramGrid::best_extents(8, 9, 14), 1};
    DistMatrix<double, Summa25D::Weight, AxisMesh<Summa25D::Axes, TestBackend>> weight{mesh,
                                                                                       {9, 14}};
    load(weight, w);
    DistMatrix<double, GramGrid::Weight, M> x{grid, {9, 14}};
    redistribute(weight, x);
    Findings found;
    const auto is_w = [&](std::size_t i, std::size_t j, double got) { return got == w(i, j); };
    check_shard(found, "on the grid", x, is_w);
    mesh.engine().fill(weight.valid(), 0.0);
    redistribute(x, weight);
    check_shard(found, "back", weight, is_w);
    return found;
  }));
}

}  // namespace cubist::test::scheme_gram_grid_test
