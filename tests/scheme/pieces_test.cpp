// SPDX-License-Identifier: BSD-3-Clause
#include <array>
#include <cstddef>
#include <limits>
#include <vector>

#include "cubist/engine/host_engine.hpp"
#include "cubist/scheme/pieces.hpp"

#include "backend.hpp"
#include "catch.hpp"
#include "ranks.hpp"

using namespace cubist;
using namespace cubist::test;
using cubist::detail::Travel;

namespace
{

using World = TestBackend::Communicator;
using Gather = cubist::detail::GatherRows<double, World>;
using Scatter = cubist::detail::ScatterSum<double, World, HostEngine>;

constexpr Shape block{3, 2};
constexpr std::array sizes{1, 2, 3, 4};
constexpr Travel ways[] = {Travel::whole, Travel::piecewise};

double element(int rank, std::size_t i) { return 100.0 * rank + static_cast<double>(i); }

}  // namespace

TEST_CASE("Blocks of rows are gathered whole or piece by piece")
{
  const int ranks = GENERATE(from_range(those_that_fit(sizes)));
  for (const auto way : ways)
    require_clear(on_ranks<TestBackend>(ranks, [&](World& world) {
      Findings found;
      const auto p = static_cast<std::size_t>(world.size());
      std::vector<double> mine(block.size());
      std::vector<double> room(p * block.size());
      for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = element(world.rank(), i);
      const MatrixView<const double> here{mine.data(), block};
      const MatrixView<double> all{room.data(), {p * block.rows, block.cols}};

      const auto check = [&](Gather& gather, const char* what) {
        const auto pieces = gather.pieces();
        found.check(pieces.count == (way == Travel::whole ? 1 : p), "pieces of ", what);
        for (std::size_t i = pieces.count; i-- > 0;)
        {
          const auto piece = gather[i];
          for (std::size_t r = 0; r < piece.rows(); ++r)
            for (std::size_t c = 0; c < piece.cols(); ++c)
            {
              const std::size_t at = (i * piece.rows() + r) * block.cols + c;
              found.check(piece(r, c) ==
                              element(static_cast<int>(at / block.size()), at % block.size()),
                          what, ", piece ", i, " on rank ", world.rank());
            }
        }
      };
      Gather gather{world, way, here, all};
      check(gather, "a gathered matrix");
      gather.finish();
      Gather kept{world, way, here, MatrixView<const double>{all}};
      check(kept, "a kept matrix");
      kept.finish();
      return found;
    }));
}

TEST_CASE("Sums are scattered whole or piece by piece, in an order of each rank's own")
{
  const int ranks = GENERATE(from_range(those_that_fit(sizes)));
  const double beta = GENERATE(0.0, 1.0, -2.0);
  for (const auto way : ways)
    require_clear(on_ranks<TestBackend>(ranks, [&](World& world) {
      Findings found;
      const HostEngine engine;
      const auto p = static_cast<std::size_t>(world.size());
      const double before = beta == 0 ? std::numeric_limits<double>::quiet_NaN() : 7;
      std::vector<double> mine(block.size(), before);
      std::vector<double> part(p * block.size());
      const std::size_t blocks = Scatter::room(world, way);
      std::vector<double> sum(blocks * block.size());
      Scatter scatter{world,
                      way,
                      engine,
                      {part.data(), {p * block.rows, block.cols}},
                      {sum.data(), {blocks * block.rows, block.cols}},
                      beta,
                      {mine.data(), block}};
      const auto out = scatter.part();
      const double onto = scatter.part_beta();
      for (std::size_t r = 0; r < out.rows(); ++r)
        for (std::size_t c = 0; c < out.cols(); ++c)
          out(r, c) =
              element(world.rank(), r * block.cols + c) + (onto == 0 ? 0 : onto * out(r, c));
      // Every rank begins with another piece.
      const auto count = scatter.pieces().count;
      for (std::size_t i = 0; i < count; ++i)
        scatter.start((i + static_cast<std::size_t>(world.rank())) % count);
      scatter.finish();

      for (std::size_t i = 0; i < mine.size(); ++i)
      {
        double expected = beta == 0 ? 0 : beta * before;
        const std::size_t at = static_cast<std::size_t>(world.rank()) * block.size() + i;
        for (int r = 0; r < world.size(); ++r) expected += element(r, at);
        found.check(mine[i] == expected, "element ", i, " on rank ", world.rank(), ", got ",
                    mine[i], " instead of ", expected);
      }
      return found;
    }));
}
