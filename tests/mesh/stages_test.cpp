// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/mesh/stages.hpp"

#include "ranks.hpp"

namespace cubist::test::mesh_stages_test
{

using A = Axes<Data, PipelineStage, Row>;
using M = AxisMesh<A, TestBackend>;

static_assert(HasStages<M>);
static_assert(!HasStages<AxisMesh<Axes<Data, Row>, TestBackend>>);
static_assert(std::is_same_v<StageMesh<M>, AxisMesh<Axes<Data, Row>, TestBackend>>);

TEST_CASE("the ranks of a stage form their own mesh")
{
  require_clear(on_ranks<TestBackend>(8, [](TestBackend::Communicator& world) {
    const M mesh{world, {2, 2, 2}, 4};
    const auto mine = make_stage_mesh(mesh);
    const auto other = make_other_stage_mesh(mesh);
    Findings found;
    found.check(stages_of(mesh) == 2, "the number of stages");
    found.check(mine.extents() == std::array<int, 2>{2, 2} && mine.quantum() == 4, "its extents");
    found.check(mine.active() && mine.rank() == rank_in_stage(mesh, mesh.rank()), "this rank");
    // Ranks 2, 3, 6 and 7 are in the second stage.
    found.check(stage_of(mesh, 6) == 1 && rank_in_stage(mesh, 6) == 2, "rank 6");
    std::array<int, 1> sum{world.rank()};
    mine.world().all_reduce(sum);
    found.check(sum[0] == (stage_of(mesh, world.rank()) == 0 ? 0 + 1 + 4 + 5 : 2 + 3 + 6 + 7),
                "the ranks of the stage add up to ", sum[0]);
    found.check(!other.active() && other.rank() == 4 && other.size() == 4, "another stage");
    return found;
  }));
}

TEST_CASE("ranks that a mesh with stages leaves idle have no stage")
{
  require_clear(on_ranks<TestBackend>(3, [](TestBackend::Communicator& world) {
    const M mesh{world, {1, 2, 1}, 1, IdleRanks::allowed};
    const auto mine = make_stage_mesh(mesh);
    Findings found;
    found.check(mine.active() == (world.rank() < 2), "rank ", world.rank());
    return found;
  }));
}

}  // namespace cubist::test::mesh_stages_test
