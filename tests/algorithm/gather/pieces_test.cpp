// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/algorithm/gather/pieces.hpp"
#include "cubist/engine/host/engine.hpp"

#include "ranks.hpp"

namespace cubist::test::algorithm_gather_pieces_test
{

using cubist::detail::Granularity;

using World = TestBackend::Communicator;
using cubist::detail::Interval;
using Blocks = cubist::detail::Blocks<World>;
using Gather = cubist::detail::GatherBlocks<double, World>;
using Scatter = cubist::detail::ScatterSum<double, World, HostEngine>;

TEST_CASE("Blocks are one piece where they form one matrix and are sent in one collective")
{
  require_clear(on_ranks<TestBackend>(2, [](World& world) {
    Findings found;
    const auto count = [&](Granularity granularity, Dimension cut, bool transposed) {
      return Blocks{world, granularity, cut, transposed}.pieces().count;
    };
    found.check(count(Granularity::whole, Dimension::rows, false) == 1, "rows below each other");
    found.check(count(Granularity::whole, Dimension::cols, true) == 1,
                "stored rows below each other");
    found.check(count(Granularity::whole, Dimension::cols, false) == 2, "columns");
    found.check(count(Granularity::whole, Dimension::rows, true) == 2, "stored columns");
    found.check(count(Granularity::piecewise, Dimension::rows, false) == 2, "one by one");
    found.check(count(Granularity::piecewise, Dimension::none, false) == 1, "nothing is cut");
    return found;
  }));
}

constexpr std::array sizes{1, 2, 3, 4};
/// How a matrix is cut and stored.
struct Case
{
  Granularity granularity;
  Dimension cut;
  bool transposed;

  [[nodiscard]] Op op() const { return transposed ? Op::transpose : Op::none; }
  /// The shape of a rank's block of op(A).
  [[nodiscard]] Shape block() const { return op_shape(transposed, stored); }
  [[nodiscard]] Shape all(std::size_t ranks) const
  {
    return {block().rows * (cut == Dimension::rows ? ranks : 1),
            block().cols * (cut == Dimension::cols ? ranks : 1)};
  }
  static constexpr Shape stored{3, 2};
};

const Case cases[] = {
    {Granularity::whole, Dimension::rows, false},
    {Granularity::whole, Dimension::rows, true},
    {Granularity::whole, Dimension::cols, false},
    {Granularity::whole, Dimension::cols, true},
    {Granularity::piecewise, Dimension::rows, false},
    {Granularity::piecewise, Dimension::cols, false},
    {Granularity::piecewise, Dimension::rows, true},
    {Granularity::piecewise, Dimension::cols, true},
};

/// The intervals of a piece of a matrix.
struct Where
{
  Interval rows;
  Interval cols;

  Where(Shape all, cubist::detail::Pieces pieces, std::size_t i)
      : rows{cut(all.rows, pieces.of(Dimension::rows), i)},
        cols{cut(all.cols, pieces.of(Dimension::cols), i)}
  {
  }

 private:
  static Interval cut(std::size_t n, std::size_t pieces, std::size_t i)
  {
    return pieces == 1 ? Interval{0, n} : Interval{n / pieces * i, n / pieces * (i + 1)};
  }
};

/// Element (i, j) of a global matrix.
static double global(std::size_t i, std::size_t j)
{
  return 1 + static_cast<double>(i) + 100 * static_cast<double>(j);
}

static double at(const Operand<const double>& m, std::size_t i, std::size_t j)
{
  return m.block(i, j, {1, 1}).stored()(0, 0);
}

TEST_CASE("Blocks are gathered whole or piece by piece, by rows or columns, stored either way")
{
  const int ranks = GENERATE(from_range(those_that_fit(sizes)));
  for (const auto& how : cases)
    require_clear(on_ranks<TestBackend>(ranks, [&](World& world) {
      Findings found;
      const auto p = static_cast<std::size_t>(world.size());
      const auto me = static_cast<std::size_t>(world.rank());
      const Blocks blocks{world, how.granularity, how.cut, how.transposed};
      const Shape all = how.all(p);
      std::vector<double> mine(Case::stored.size());
      std::vector<double> buffer(p * Case::stored.size());
      const Operand<double> here{MatrixView<double>{mine.data(), Case::stored}, how.op()};
      const Where block{all, {p, me, how.cut}, me};
      for (std::size_t i = 0; i < here.rows(); ++i)
        for (std::size_t j = 0; j < here.cols(); ++j)
          here.block(i, j, {1, 1}).stored()(0, 0) =
              global(block.rows.begin + i, block.cols.begin + j);
      const MatrixView<double> stack{buffer.data(), {p * Case::stored.rows, Case::stored.cols}};

      const auto check = [&](Gather& gather, const char* what) {
        const auto pieces = blocks.pieces();
        for (std::size_t piece = pieces.count; piece-- > 0;)
        {
          const Where w{all, pieces, piece};
          const auto part = gather.part(piece, w.rows, w.cols);
          bool same = part.shape() == Shape{w.rows.size(), w.cols.size()};
          for (std::size_t i = 0; same && i < part.rows(); ++i)
            for (std::size_t j = 0; j < part.cols(); ++j)
              same = same && at(part, i, j) == global(w.rows.begin + i, w.cols.begin + j);
          found.check(same, what, ", piece ", piece, " on rank ", world.rank());
          const auto one =
              gather.part(piece, {w.rows.end - 1, w.rows.end}, {w.cols.end - 1, w.cols.end});
          found.check(at(one, 0, 0) == global(w.rows.end - 1, w.cols.end - 1), what,
                      ", last element of piece ", piece);
        }
      };
      cubist::detail::Requests<World> requests;
      Gather gather{blocks, requests, here, stack};
      check(gather, "a gathered matrix");
      gather.finish();
      cubist::detail::Requests<World> none;
      Gather kept{blocks, none, here, stack, true};
      check(kept, "a kept matrix");
      kept.finish();
      return found;
    }));
}

TEST_CASE("Sums are scattered, or sent to all ranks, whatever the order of a rank's pieces")
{
  const int ranks = GENERATE(from_range(those_that_fit(sizes)));
  const double beta = GENERATE(0.0, 1.0, -2.0);
  std::vector<Case> all_cases(std::begin(cases), std::end(cases));
  for (const auto granularity : {Granularity::whole, Granularity::piecewise})
    for (const bool transposed : {false, true})
      all_cases.push_back({granularity, Dimension::none, transposed});
  for (const auto& how : all_cases)
    require_clear(on_ranks<TestBackend>(ranks, [&](World& world) {
      Findings found;
      const HostEngine engine;
      const auto p = static_cast<std::size_t>(world.size());
      const auto me = static_cast<std::size_t>(world.rank());
      const Blocks blocks{world, how.granularity, how.cut, how.transposed};
      const Shape all = how.all(p);
      const double before = beta == 0 ? std::numeric_limits<double>::quiet_NaN() : 7;
      std::vector<double> mine(Case::stored.size(), before);
      const std::size_t part_rows = Scatter::part_blocks(blocks) * Case::stored.rows;
      const std::size_t sum_rows = Scatter::sum_blocks(blocks) * Case::stored.rows;
      std::vector<double> part(part_rows * Case::stored.cols);
      std::vector<double> sum(sum_rows * Case::stored.cols);
      const Operand<double> here{MatrixView<double>{mine.data(), Case::stored}, how.op()};
      cubist::detail::Requests<World> requests;
      Scatter scatter{blocks,
                      requests,
                      engine,
                      {part.data(), {part_rows, Case::stored.cols}},
                      {sum.data(), {sum_rows, Case::stored.cols}},
                      beta,
                      here};
      const double onto = scatter.part_beta();
      const auto pieces = blocks.pieces();
      // Every rank begins with another piece.
      for (std::size_t s = 0; s < pieces.count; ++s)
      {
        const std::size_t piece = (s + me) % pieces.count;
        const Where w{all, pieces, piece};
        const auto out = scatter.part(piece, w.rows, w.cols);
        for (std::size_t i = 0; i < out.rows(); ++i)
          for (std::size_t j = 0; j < out.cols(); ++j)
          {
            double& e = out.block(i, j, {1, 1}).stored()(0, 0);
            const double add = global(w.rows.begin + i, w.cols.begin + j) * (world.rank() + 1);
            e = add + (onto == 0 ? 0 : onto * e);
          }
        scatter.start(piece);
      }
      scatter.finish();

      const Where block{all, {p, me, how.cut}, how.cut == Dimension::none ? 0 : me};
      const double ranks_sum = static_cast<double>(p * (p + 1)) / 2;
      for (std::size_t i = 0; i < here.rows(); ++i)
        for (std::size_t j = 0; j < here.cols(); ++j)
        {
          const double expected = ranks_sum * global(block.rows.begin + i, block.cols.begin + j) +
                                  (beta == 0 ? 0 : beta * before);
          const double got = at(here, i, j);
          found.check(got == expected, "element (", i, ", ", j, ") on rank ", world.rank(),
                      ", got ", got, " instead of ", expected);
        }
      return found;
    }));
}

TEST_CASE(
    "sums that travel piece by piece have the same bits as those that travel whole, in any order")
{
  const int ranks = GENERATE(from_range(those_that_fit(std::array{3, 4})));
  const double beta = GENERATE(0.0, -0.3);
  require_clear(on_ranks<TestBackend>(ranks, [&](World& world) {
    Findings found;
    const HostEngine engine;
    const auto p = static_cast<std::size_t>(world.size());
    const auto me = static_cast<std::size_t>(world.rank());
    constexpr Shape stored = Case::stored;
    // Magnitudes differ so much that every order of summation rounds differently.
    const auto x = [](std::size_t rank, std::size_t element) {
      const auto exponent = static_cast<int>((element * 7 + rank * 5) % 23);
      return ((rank + element) % 2 == 0 ? 1.0 : -1.0) * std::ldexp(1 / 3.0, 2 * exponent);
    };
    for (const auto& how : cases)
    {
      const Blocks blocks{world, how.granularity, how.cut, how.transposed};
      std::vector<double> mine(stored.size(), 0.7);
      const std::size_t part_rows = Scatter::part_blocks(blocks) * stored.rows;
      const std::size_t sum_rows = Scatter::sum_blocks(blocks) * stored.rows;
      std::vector<double> part(part_rows * stored.cols), sum(sum_rows * stored.cols);
      cubist::detail::Requests<World> requests;
      Scatter scatter{blocks,
                      requests,
                      engine,
                      {part.data(), {part_rows, stored.cols}},
                      {sum.data(), {sum_rows, stored.cols}},
                      beta,
                      {MatrixView<double>{mine.data(), stored}, how.op()}};
      // The blocks of all ranks are adjacent in memory, whatever they cut.
      for (std::size_t i = 0; i < part.size(); ++i) part[i] = x(me, i);
      const std::size_t count = blocks.pieces().count;
      for (std::size_t s = 0; s < count; ++s) scatter.start((s + me) % count);
      scatter.finish();
      for (std::size_t i = 0; i < mine.size(); ++i)
      {
        double expected = x(0, me * stored.size() + i);
        for (std::size_t rank = 1; rank < p; ++rank) expected += x(rank, me * stored.size() + i);
        if (beta != 0) expected += beta * 0.7;
        found.check(mine[i] == expected, "element ", i, " on rank ", me, " is off by ",
                    mine[i] - expected, how.granularity == Granularity::whole ? ", whole" : "");
      }
    }
    return found;
  }));
}

}  // namespace cubist::test::algorithm_gather_pieces_test
