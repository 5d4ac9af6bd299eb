// SPDX-License-Identifier: BSD-3-Clause
#include <cstddef>
#include <vector>

#include "cubist/algorithm/direct/peer_matrix.hpp"

#include "backend.hpp"
#include "catch.hpp"
#include "ranks.hpp"

namespace algorithm_direct_peer_matrix_test
{

using namespace cubist;
using namespace cubist::test;

namespace
{

using World = TestBackend::Communicator;
using Matrix = cubist::detail::PeerMatrix<double, World>;

/// Rank r's block of 3 x 4, row by row from 100 r on.
std::vector<double> block(int rank)
{
  std::vector<double> all;
  for (int i = 0; i < 12; ++i) all.push_back(100 * rank + i);
  return all;
}

}  // namespace

TEST_CASE("Pieces of every rank's block are read, as stored or transposed")
{
  if (!exposes<TestBackend>() || !fits(3)) return;
  require_clear(on_ranks<TestBackend>(3, [](World& world) {
    Findings found;
    const auto mine = block(world.rank());
    for (const bool transposed : {false, true})
    {
      const Operand<const double> stored{MatrixView<const double>{mine.data(), {3, 4}},
                                         transposed ? Op::transpose : Op::none};
      Matrix matrix{world, stored, true};
      for (int r = 0; r < 3; ++r)
      {
        // Element (1, 2) of the stored block.
        const std::size_t i = transposed ? 2 : 1;
        const auto one = matrix.all().piece({r, i, 3 - i}, {1, 1});
        const auto turned = matrix.all().t().piece({r, 3 - i, i}, {1, 1});
        const double expected = 100 * r + 4 * 1 + 2;
        found.check(*one.stored().data() == expected, "rank ", r, ": ", *one.stored().data());
        found.check(*turned.stored().data() == expected, "rank ", r, ", turned");
        found.check(one.transposed() == transposed && turned.transposed() != transposed,
                    "how it is stored");
      }
      matrix.close();
      matrix.wait();
    }
    return found;
  }));
}

TEST_CASE("A matrix that no rank reads is not exposed, and no rank waits")
{
  if (!exposes<TestBackend>() || !fits(2)) return;
  require_clear(on_ranks<TestBackend>(2, [](World& world) {
    Findings found;
    const auto mine = block(world.rank());
    const int ranks = world.size();
    found.check(ranks == 2, ranks, " ranks");
    if (world.rank() == 0)
    {
      // Rank 1 does not take part.
      Matrix matrix{world, {MatrixView<const double>{mine.data(), {3, 4}}}, false};
      const auto piece = matrix.all().piece({0, 2, 3}, {1, 1});
      found.check(*piece.stored().data() == 11, "the own block");
      matrix.close();
      matrix.wait();
    }
    world.barrier();
    return found;
  }));
}

}  // namespace algorithm_direct_peer_matrix_test
