// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/scheme/batch_mesh.hpp"
#include "cubist/scheme/summa2d.hpp"

#include "ranks.hpp"

namespace cubist::test::scheme_batch_mesh_test
{

TEST_CASE("A batch mesh has groups of consecutive ranks, and communicators across the groups")
{
  if (!fits(8)) return;
  const auto found = on_ranks<TestBackend>(8, [](TestBackend::Communicator& world) {
    const BatchMesh<Summa2D, TestBackend> mesh{world, 2, {.q = 2}};
    const auto c = mesh.group().coordinates();
    return std::tuple{mesh.index(),         mesh.groups(),       mesh.group_size(),
                      mesh.group().rank(),  mesh.group().size(), c[0] * 2 + c[1],
                      mesh.across().rank(), mesh.across().size()};
  });
  for (int rank = 0; rank < 8; ++rank)
    CHECK(found[static_cast<std::size_t>(rank)] ==
          std::tuple{rank / 4, 2, 4, rank % 4, 4, rank % 4, rank / 4, 2});
}

TEST_CASE("A batch mesh refuses groups that do not have the same number of ranks, on every rank")
{
  for (const int groups : {3, 0, 8})
    for (const auto& m : on_ranks<TestBackend>(4, [groups](TestBackend::Communicator& world) {
           return message_of<MeshError>([&] { BatchMesh<Summa2D, TestBackend>{world, groups}; });
         }))
      CHECK(mentions(m, "got " + std::to_string(groups) + " groups for 4 ranks",
                     "use a divisor of 4"));
}

}  // namespace cubist::test::scheme_batch_mesh_test
