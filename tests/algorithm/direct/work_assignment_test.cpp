// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/algorithm/direct/work_assignment.hpp"

#include "catch.hpp"
#include "placements.hpp"

namespace cubist::test::algorithm_direct_work_assignment_test
{

// Which parts ranks multiply, and which they read from their peers: together they cover every
// product once. tests/support/scheme_conformance.hpp tests the results for every scheme.

using namespace cubist::detail;

TEST_CASE("As many ranks work as there are cores, where that is faster")
{
  const auto grid = [](ProductSize s, int cores, std::size_t rows, std::size_t cols, int rank) {
    return assign_work(blocks({s.m, s.k}, rows, cols), blocks({s.k, s.n}, rows, cols),
                       blocks({s.m, s.n}, rows, cols), rank, cores, sizeof(double));
  };
  // With a core for each rank, every rank computes its own block.
  const auto own = grid({2048, 2048, 2048}, 4, 2, 2, 3);
  CHECK_FALSE(own.writes_c);
  CHECK_FALSE(own.in_workspace);
  CHECK(own.products.size() == 2);
  // With two cores, two ranks compute two blocks each.
  for (const int rank : {0, 1, 2, 3})
  {
    const auto product = grid({2048, 2048, 2048}, 2, 2, 2, rank);
    CHECK(product.writes_c);
    CHECK(product.products.size() == (rank % 2 == 0 ? 4 : 0));
    CHECK(product.peer_parts.empty());
  }
  // This one is too small for another synchronisation.
  CHECK_FALSE(grid({64, 64, 64}, 2, 2, 2, 0).writes_c);
  CHECK_FALSE(grid({16, 16, 512}, 2, 8, 1, 0).in_workspace);
  CHECK_FALSE(grid({0, 0, 0}, 2, 2, 2, 0).in_workspace);
  // Blocks that are strips, and results with few elements, are cut in another way.
  CHECK(grid({4096, 4096, 4096}, 64, 64, 1, 0).in_workspace);
  CHECK(grid({4096, 4096, 4096}, 64, 1, 64, 0).in_workspace);
  CHECK(grid({256, 256, 65536}, 4, 2, 2, 0).workspace == Shape{256, 256});
  CHECK(grid({256, 256, 65536}, 2, 2, 4, 0).workspace == Shape{256, 256});
  // The only row is on rank 0 of 8 x 1, and all ranks compute it.
  CHECK_FALSE(grid({1, 64, 1 << 20}, 8, 8, 1, 7).products.empty());
}

/// A matrix whose elements are their indices in the whole matrix.
using Indices = std::vector<std::size_t>;

/// Assembles the elements of a factor of this shape, as a rank does.
static Indices assemble(const Placement& a, const std::vector<BlockProduct::Piece>& pieces,
                        Shape shape)
{
  const std::size_t none = a.shape().size();
  Indices all(shape.size(), none);
  for (const auto& [from, to] : pieces)
    for (std::size_t i = 0; i < to.shape.rows; ++i)
      for (std::size_t j = 0; j < to.shape.cols; ++j)
      {
        const Block& block = a[from.rank];
        CHECK(from.i + i < block.rows.valid);
        CHECK(from.j + j < block.cols.valid);
        auto& index = all[(to.i + i) * shape.cols + to.j + j];
        CHECK(index == none);
        index = (block.rows.offset + from.i + i) * a.shape().cols + block.cols.offset + from.j + j;
      }
  return all;
}

/// How many times all ranks together add each product A(i, k) B(k, j) to C(i, j).
static std::vector<int> times_added(const SharedWork& w, const std::vector<AssignedPart>& parts)
{
  const ProductSize s = w.size();
  std::vector<int> times(s.m * s.n * s.k);
  for (int rank = 0; rank < w.c.ranks(); ++rank)
  {
    Indices left;
    std::map<std::size_t, Indices> slots;
    for (const auto& t : assign_in_place(w, parts, rank).products)
    {
      if (!t.same_a) left = assemble(w.a, t.a, {t.size.m, t.size.k});
      auto& right = slots[t.b_slot];
      if (!t.same_b) right = assemble(w.b, t.b, {t.size.k, t.size.n});
      // A and B agree on the inner indices, A and C on rows, B and C on columns.
      for (std::size_t i = 0; i < t.size.m; ++i)
        for (std::size_t j = 0; j < t.size.n; ++j)
          for (std::size_t k = 0; k < t.size.k; ++k)
          {
            const std::size_t x = left[i * t.size.k + k];
            const std::size_t y = right[k * t.size.n + j];
            CHECK(x % s.k == y / s.n);
            CHECK(x / s.k == w.c[t.c.rank].rows.offset + t.c.i + i);
            CHECK(y % s.n == w.c[t.c.rank].cols.offset + t.c.j + j);
            ++times[(x / s.k * s.n + y % s.n) * s.k + x % s.k];
          }
    }
  }
  return times;
}

/// How many times a first product writes each element of a rank's block, or a copy does.
static std::vector<int> times_written(const SharedWork& w, const std::vector<AssignedPart>& parts,
                                      int rank)
{
  const Block block = w.c[rank];
  std::vector<int> times(block.valid().size());
  const auto add = [&](std::size_t i0, std::size_t j0, Shape shape) {
    for (std::size_t i = 0; i < shape.rows; ++i)
      for (std::size_t j = 0; j < shape.cols; ++j) ++times[(i0 + i) * block.cols.valid + j0 + j];
  };
  for (int worker = 0; worker < w.c.ranks(); ++worker)
    for (const auto& t : assign_in_place(w, parts, worker).products)
      if (t.c.rank == rank && t.first) add(t.c.i, t.c.j, {t.size.m, t.size.n});
  for (const auto& part : assign_in_place(w, parts, rank).peer_parts)
    add(part.to.i, part.to.j, part.shape);
  return times;
}

TEST_CASE("All ranks together multiply every pair of elements once")
{
  for (const ProductSize s :
       {ProductSize{7, 9, 11}, ProductSize{8, 4, 16}, ProductSize{1, 2, 3}, ProductSize{3, 1, 50}})
    for (const std::size_t replicas : {1U, 2U, 3U})
    {
      CAPTURE(s.m, s.n, s.k, replicas);
      const auto a = blocks({s.m, s.k}, 2, 3, replicas);
      const auto b = blocks({s.k, s.n}, 3, 2, replicas);
      for (const auto& c : {blocks({s.m, s.n}, 2, 3, replicas), blocks({s.m, s.n}, 6, 1, replicas),
                            blocks({s.m, s.n}, 1, 1, 6 * replicas)})
        for (const std::size_t workers : {1U, 2U, 3U, 4U})
        {
          const SharedWork w{a, b, c, workers};
          std::vector<std::vector<AssignedPart>> all_parts{parts_per_rank(w)};
          if (const auto some = parts_per_worker(w); !some.empty()) all_parts.push_back(some);
          for (const auto& parts : all_parts)
          {
            CHECK(times_added(w, parts) == std::vector<int>(s.m * s.n * s.k, 1));
            for (int rank = 0; rank < c.ranks(); ++rank)
              CHECK(times_written(w, parts, rank) == std::vector<int>(c[rank].valid().size(), 1));
          }
        }
    }
}

TEST_CASE("All ranks together multiply every pair of elements once in strips of rows, too")
{
  const ProductSize s{700, 6, 6};
  GemmTimes times;
  times.cached = 128 * 12;
  for (const std::size_t replicas : {1U, 2U})
    for (const auto& c : {blocks({s.m, s.n}, 1, 6, replicas), blocks({s.m, s.n}, 3, 2, replicas)})
    {
      CAPTURE(replicas, c[0].rows.size);
      const auto a = blocks({s.m, s.k}, 2, 3, replicas);
      const auto b = blocks({s.k, s.n}, 3, 2, replicas);
      const SharedWork w{a, b, c, 2, times};
      const auto parts = parts_per_worker(w);
      REQUIRE_FALSE(parts.empty());
      const auto& first = assign_in_place(w, parts, 0).products;
      CHECK(std::any_of(first.begin(), first.end(), [](const auto& t) { return t.same_a; }));
      CHECK(times_added(w, parts) == std::vector<int>(s.m * s.n * s.k, 1));
      for (int rank = 0; rank < c.ranks(); ++rank)
        CHECK(times_written(w, parts, rank) == std::vector<int>(c[rank].valid().size(), 1));
    }
}

/// Checks that a cut adds each product of two elements once to each rank's block of C.
static void check_sums(const Placement& a, const Placement& b, const Placement& c,
                       const WorkCut& cut)
{
  const auto inner = static_cast<int>(a.shape().cols);
  std::vector<WorkAssignment> works;
  for (int rank = 0; rank < c.ranks(); ++rank)
    works.push_back(assign_by_cut({a, b, c, cut.workers()}, cut, rank));
  for (int rank = 0; rank < c.ranks(); ++rank)
  {
    const auto& mine = works[static_cast<std::size_t>(rank)];
    CHECK(mine.in_workspace);
    CHECK(mine.reads_c);
    CHECK(mine.workspace == works[0].workspace);
    const Shape block = c[rank].valid();
    std::vector<int> inner_indices(block.size());
    std::vector<int> firsts(block.size());
    for (const auto& part : mine.peer_parts)
    {
      const auto& theirs = works[static_cast<std::size_t>(part.from.rank)];
      CHECK(part.from.i + part.shape.rows <= theirs.workspace.rows);
      CHECK(part.from.j + part.shape.cols <= theirs.workspace.cols);
      for (std::size_t i = 0; i < part.shape.rows; ++i)
        for (std::size_t j = 0; j < part.shape.cols; ++j)
        {
          const std::size_t at = (part.to.i + i) * block.cols + part.to.j + j;
          firsts[at] += part.first ? 1 : 0;
          for (const auto& t : theirs.products)
            if (t.c.rank == part.from.rank && t.c.i <= part.from.i + i &&
                part.from.i + i < t.c.i + t.size.m && t.c.j <= part.from.j + j &&
                part.from.j + j < t.c.j + t.size.n)
              inner_indices[at] += static_cast<int>(t.size.k);
        }
    }
    CHECK(inner_indices == std::vector<int>(block.size(), inner));
    CHECK(firsts == std::vector<int>(block.size(), 1));
  }
}

TEST_CASE("The parts of a cut contain every product of two elements once, on every replica")
{
  for (const ProductSize s : {ProductSize{7, 9, 11}, ProductSize{8, 4, 16}, ProductSize{1, 2, 3}})
    for (const WorkCut cut : {WorkCut{1, 1, 12}, WorkCut{2, 3, 2}, WorkCut{3, 1, 4},
                              WorkCut{1, 2, 1}, WorkCut{1, 1, 5}})
    {
      CAPTURE(s.m, s.n, s.k, cut.m, cut.n, cut.k);
      check_sums(blocks({s.m, s.k}, 2, 3, 2), blocks({s.k, s.n}, 3, 4), blocks({s.m, s.n}, 2, 3, 2),
                 cut);
      check_sums(blocks({s.m, s.k}, 1, 12), blocks({s.k, s.n}, 12, 1), blocks({s.m, s.n}, 1, 12),
                 cut);
    }
}

TEST_CASE("Workspaces pay sooner for floats, whose copies take less time")
{
  const auto in_workspace = [](std::size_t scalar_bytes) {
    return assign_work(blocks({2048, 2048}, 4, 2), blocks({2048, 2048}, 2, 2, 2),
                       blocks({2048, 2048}, 4, 2), 0, 2, scalar_bytes)
        .in_workspace;
  };
  CHECK(in_workspace(sizeof(float)));
  CHECK_FALSE(in_workspace(sizeof(double)));
}

TEST_CASE("As many replicas compute their block as there are cores")
{
  const auto c = blocks({512, 512}, 1, 1, 4);
  const auto a = blocks({512, 4096}, 2, 2);
  const auto b = blocks({4096, 512}, 2, 2);
  const SharedWork w{a, b, c, 2};
  const auto parts = parts_per_worker(w);
  REQUIRE(parts.size() == 2);
  for (std::size_t i = 0; i < 2; ++i)
  {
    CHECK(parts[i].part.rows == Range{256 * i, 256, 256});
    CHECK(parts[i].holder == static_cast<int>(2 * i));
    CHECK(parts[i].worker == static_cast<int>(2 * i));
  }
  CHECK(assign_in_place(w, parts, 0).peer_parts.size() == 1);
  CHECK(assign_in_place(w, parts, 1).peer_parts.size() == 2);
  // Workers do not compute in place if one would have more parts than another.
  CHECK(parts_per_worker({a, b, blocks({512, 512}, 4, 1), 3}).empty());
  CHECK(parts_per_worker({a, b, c, 3}).size() == 3);
}

TEST_CASE("Each rank multiplies its own blocks if a replicated result has one row")
{
  // The product for the next token of a text, in the second layer of a pair of Megatron1D.
  for (const std::size_t ranks : {2U, 4U, 8U})
    for (int rank = 0; rank < static_cast<int>(ranks); ++rank)
    {
      CAPTURE(ranks, rank);
      const auto work = assign_work(blocks({1, 3072}, 1, ranks), blocks({3072, 768}, ranks, 1),
                                    blocks({1, 768}, 1, 1, ranks), rank, 2, sizeof(float));
      REQUIRE(work.products.size() == 1);
      CHECK(work.products[0].size.n == 768);
      CHECK(work.products[0].size.k == 3072 / ranks);
      CHECK_FALSE(work.reads_a);
      CHECK_FALSE(work.reads_b);
      CHECK(work.peer_parts.size() == ranks);
    }
}

TEST_CASE("A factor is read by peers unless each rank has all that its block needs")
{
  const auto reads = [](const Placement& a, const Placement& b, const Placement& c) {
    const auto product = assign_work(a, b, c, 0, c.ranks(), 8);
    return std::pair{product.reads_a, product.reads_b};
  };
  // Rows of C need rows of A and all of B.
  const auto rows = blocks({12, 8}, 4, 1);
  CHECK(reads(rows, blocks({8, 6}, 1, 1, 4), blocks({12, 6}, 4, 1)) == std::pair{false, false});
  CHECK(reads(rows, blocks({8, 6}, 4, 1), blocks({12, 6}, 4, 1)) == std::pair{false, true});
  CHECK(reads(blocks({12, 8}, 2, 2), blocks({8, 6}, 2, 2), blocks({12, 6}, 2, 2)) ==
        std::pair{true, true});
  // Columns of C need columns of B and all of A.
  CHECK(reads(blocks({12, 8}, 1, 4), blocks({8, 6}, 1, 4), blocks({12, 6}, 1, 4)) ==
        std::pair{true, false});
  // The last rank has nothing to compute, so it reads nothing.
  CHECK(reads(blocks({3, 8}, 4, 1), blocks({8, 6}, 1, 1, 4), blocks({3, 6}, 4, 1)) ==
        std::pair{false, false});
}

TEST_CASE("A result stored transposed has its products in the stored block")
{
  const ProductSize s{5, 6, 7};
  const auto a = blocks({s.k, s.m}, 3, 2, 1, true);
  const auto b = blocks({s.n, s.k}, 2, 3, 1, true);
  // C^T = B^T A^T, so the corners of C are those of its transpose.
  const auto stored = assign_work(b.t(), a.t(), blocks({s.n, s.m}, 3, 2), 4, 6, 8);
  const auto swapped = assign_work(a, b, blocks({s.n, s.m}, 3, 2, 1, true), 4, 6, 8);
  REQUIRE(stored.products.size() == swapped.products.size());
  for (std::size_t i = 0; i < stored.products.size(); ++i)
  {
    CHECK(stored.products[i].c.i == swapped.products[i].c.i);
    CHECK(stored.products[i].size.m == swapped.products[i].size.m);
  }
}

TEST_CASE("Replicas compute a share of the rows each, and read their own replicas of the operands")
{
  const auto c = blocks({100, 400}, 1, 1, 3);
  const auto a = blocks({100, 6}, 1, 1, 3);
  const auto b = blocks({6, 400}, 3, 1);
  std::size_t rows = 0;
  std::size_t computed = 0;
  for (int rank = 0; rank < 3; ++rank)
  {
    const auto product = assign_work(a, b, c, rank, 3, 8);
    CHECK(product.reads_c);
    CHECK(product.peer_parts.size() == 2);
    for (const auto& t : product.products)
    {
      CHECK(t.c.i == rows);
      CHECK(t.a.front().from.rank == rank);
      if (t.first) computed += t.size.m;
    }
    rows = computed;
  }
  CHECK(rows == 100);
  CHECK_FALSE(assign_work(a, b, blocks({100, 400}, 3, 1), 0, 3, 8).reads_c);
}

TEST_CASE("A rank without elements, and a product without inner indices, have no products")
{
  const auto none =
      assign_work(blocks({1, 4}, 2, 1), blocks({4, 4}, 1, 2), blocks({1, 4}, 2, 1), 1, 2, 8);
  CHECK(none.products.empty());
  CHECK(none.zero_k.empty());
  const auto empty =
      assign_work(blocks({4, 0}, 2, 1), blocks({0, 4}, 1, 2), blocks({4, 4}, 2, 1), 1, 2, 8);
  CHECK(empty.products.empty());
  CHECK(empty.zero_k.shape == Shape{2, 4});
}

TEST_CASE("The workers of a cut compute every product of two elements once")
{
  for (const ProductSize s : {ProductSize{7, 9, 11}, ProductSize{8, 4, 16}, ProductSize{1, 2, 3}})
    for (const std::size_t workers : {1U, 2U, 6U, 12U})
      for (const WorkCut& cut : work_cuts(workers))
      {
        CAPTURE(s.m, s.n, s.k, cut.m, cut.n, cut.k);
        CHECK(cut.workers() == workers);
        std::vector<int> times(s.m * s.n * s.k);
        for (std::size_t w = 0; w < workers; ++w)
        {
          const auto [rows, cols] = cut.block(s, w);
          const auto inner = cut.inner(s, w);
          for (std::size_t i = 0; i < rows.valid; ++i)
            for (std::size_t j = 0; j < cols.valid; ++j)
              for (std::size_t k = 0; k < inner.valid; ++k)
                ++times[((rows.offset + i) * s.n + cols.offset + j) * s.k + inner.offset + k];
          CHECK(Block{rows, cols}.padded() == cut.block(s, 0).padded());
        }
        CHECK(std::count(times.begin(), times.end(), 1) == static_cast<long>(times.size()));
      }
}

TEST_CASE("All cuts among the workers are found, those with fewer sums first")
{
  CHECK(work_cuts(1) == std::vector<WorkCut>{{1, 1, 1}});
  CHECK(work_cuts(2) == std::vector<WorkCut>{{1, 2, 1}, {2, 1, 1}, {1, 1, 2}});
  CHECK(work_cuts(8).size() == 10);
}

}  // namespace cubist::test::algorithm_direct_work_assignment_test
