// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/gradients/gradient_reducer.hpp"
#include "cubist/scheme/summa25d.hpp"

#include "ranks.hpp"

namespace cubist::test::gradients_gradient_reducer_test
{

using World = TestBackend::Communicator;
using Grid = Mesh<Summa25D, TestBackend>;

TEST_CASE("a reducer sums along the given axes only")
{
  require_clear(on_ranks<TestBackend>(8, [](World& world) {
    const Grid mesh{world, {.q = 2, .d = 2}};
    Findings found;
    const auto sum = [&](auto axes) {
      std::array<double, 3> block{1.0 * world.rank(), 10.0, 0.5};
      ImmediateSums<double, AxisMesh<Summa25D::Axes, TestBackend>> sums;
      sums.begin();
      sums.sum(mesh, axes, MatrixView<double>{block.data(), {1, 3}});
      sums.finish();
      return block;
    };
    const int r = world.rank();
    found.check(sum(Axes<>{})[0] == r, "nothing is summed without axes");
    // Ranks differ by 4 along depth, by 2 along rows.
    found.check(sum(Axes<Depth>{}) == std::array{2.0 * (r % 4) + 4, 20.0, 1.0}, "along depth");
    found.check(sum(Axes<Depth, Row>{}) == std::array{4.0 * (r % 2) + 12, 40.0, 2.0},
                "along depth and rows");
    return found;
  }));
}

TEST_CASE("a gradient that only one rank holds is complete")
{
  require_clear(on_ranks<TestBackend>(1, [](World& world) {
    const Grid mesh{world};
    Findings found;
    std::array<double, 2> block{1, 2};
    ImmediateSums<double, AxisMesh<Summa25D::Axes, TestBackend>> sums;
    sums.sum(mesh, Axes<Depth>{}, MatrixView<double>{block.data(), {1, 2}});
    found.check(block == std::array{1.0, 2.0}, "one rank's sum is what it has");
    found.check(cubist::detail::replicas_along(mesh, Axes<Depth>{}) == nullptr,
                "it has no replicas");
    return found;
  }));
}

}  // namespace cubist::test::gradients_gradient_reducer_test
