// SPDX-License-Identifier: BSD-3-Clause
// Tests matrices of one stage, seen as matrices of all ranks.

#include "cubist/matrix/check_replicas.hpp"
#include "cubist/matrix/global.hpp"
#include "cubist/matrix/stage_view.hpp"

#include "ranks.hpp"

namespace cubist::test::matrix_stage_view_test
{

using M = AxisMesh<Axes<PipelineStage, Row, Col>, TestBackend>;
using OfStage = StageMesh<M>;
template <class T>
using Global = xt::xtensor<T, 2>;
using Matrix = DistMatrix<double, Layout<Rows<Row>, Cols<>>, OfStage>;

static double element(std::size_t i, std::size_t j) { return static_cast<double>(10 * i + j); }

TEST_CASE("the ranks of other stages hold empty blocks of a matrix")
{
  require_clear(on_ranks<TestBackend>(8, [](TestBackend::Communicator& world) {
    const M mesh{world, {2, 2, 2}, 2};
    const auto of_stage = make_stage_mesh(mesh);
    const int mine = stage_of(mesh, world.rank());
    Findings found;
    for (const int stage : {0, 1})
    {
      Matrix w{mine == stage ? of_stage : make_other_stage_mesh(mesh), {5, 3}};
      const auto view = view_of_stage(mesh, w.view(), stage);
      for (int rank = 0; rank < 8; ++rank)
      {
        found.check((view.block(rank).valid().size() > 0) == (stage_of(mesh, rank) == stage),
                    "the block of rank ", rank);
        found.check(view.is_primary(rank) == (rank == 4 * stage || rank == 4 * stage + 2),
                    "whether rank ", rank, " is primary");
      }
      found.check((view.replica_ranks() != nullptr) == (mine == stage), "the replicas");
      Global<double> all;
      if (world.rank() == 0)
      {
        all = Global<double>::from_shape({5, 3});
        for (std::size_t i = 0; i < 5; ++i)
          for (std::size_t j = 0; j < 3; ++j) all(i, j) = element(i, j);
      }
      scatter(all, view);
      for (std::size_t i = 0; i < w.valid().rows(); ++i)
        found.check(w.valid()(i, 1) == element(w.block().rows.offset + i, 1), "row ", i);
      const auto back = gather(std::as_const(view));
      if (world.rank() == 0) found.check(back == all, "the gathered matrix");
    }
    return found;
  }));
}

/// Makes the mesh on which a rank makes a matrix of these stages. Every rank calls it.
static OfStage mesh_for(const M& mesh, int first, int second)
{
  const OfStage of_stage = make_stage_mesh(mesh);
  const int mine = stage_of(mesh, mesh.rank());
  return mine == first || mine == second ? of_stage : make_other_stage_mesh(mesh);
}

TEST_CASE("replicas that differ are found within a stage, and between two that share a matrix")
{
  // A row of three stages; rank 2 changes its copy.
  const auto messages = on_ranks<TestBackend>(3, [](TestBackend::Communicator& world) {
    const M mesh{world, {3, 1, 1}, 1};
    Matrix shared{mesh_for(mesh, 0, 2), {2, 2}};
    Matrix alone{mesh_for(mesh, 1, 1), {2, 2}};
    const auto check = [&] {
      const std::vector<NamedMatrix<const double, M>> all{
          {"alone", view_of_stage(mesh, alone.view(), 1)},
          {"shared", view_of_stage(mesh, shared.view(), 0, 2)}};
      return message_of<ReplicaError>([&] { check_replicas(all); });
    };
    const std::string equal = check();
    if (world.rank() == 1) alone.valid()(0, 0) = 1;
    const std::string other = check();
    if (world.rank() == 2) shared.valid()(0, 0) = 1;
    return equal + other + check();
  });
  for (const auto& message : messages)
    CHECK(mentions(message, "shared differs along stage between rank 0 and rank 2"));
}

TEST_CASE("replicas within a later stage are compared")
{
  const auto messages = on_ranks<TestBackend>(4, [](TestBackend::Communicator& world) {
    const M mesh{world, {2, 1, 2}, 1};
    Matrix w{mesh_for(mesh, 1, 1), {2, 2}};
    if (world.rank() == 3) w.valid()(0, 0) = 1;
    const std::vector<NamedMatrix<const double, M>> all{{"W", view_of_stage(mesh, w.view(), 1)}};
    return message_of<ReplicaError>([&] { check_replicas(all); });
  });
  for (const auto& message : messages)
    CHECK(mentions(message, "W differs along col between rank 2 and rank 3"));
}

}  // namespace cubist::test::matrix_stage_view_test
