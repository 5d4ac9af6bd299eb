// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/mesh/mesh.hpp"

#include "ranks.hpp"

namespace cubist::test::mesh_mesh_test
{

using Three = Axes<Depth, Row, Col>;
using Mesh3 = AxisMesh<Three, TestBackend>;
using World = TestBackend::Communicator;

TEST_CASE("A rank knows its place on the mesh")
{
  require_clear(on_ranks<TestBackend>(12, [](World& world) {
    const Mesh3 mesh{world, {2, 3, 2}, 60};
    Findings found;
    found.check(mesh.rank() == world.rank() && mesh.size() == 12, "rank or size");
    found.check(mesh.world().rank() == world.rank() && mesh.world().size() == 12, "world");
    found.check(mesh.quantum() == 60, "quantum");
    found.check(mesh.extents() == Three::Array{2, 3, 2}, "extents");
    found.check(mesh.extent<Depth>() == 2 && mesh.extent<Row>() == 3 && mesh.extent<Col>() == 2,
                "extent");
    const int r = world.rank();
    found.check(mesh.coordinates() == Three::Array{r / 6, r / 2 % 3, r % 2}, "coordinates");
    found.check(mesh.coordinate<Depth>() == r / 6 && mesh.coordinate<Row>() == r / 2 % 3 &&
                    mesh.coordinate<Col>() == r % 2,
                "coordinate");
    found.check(mesh.coordinates(7) == Three::Array{1, 0, 1}, "coordinates of rank 7");
    return found;
  }));
}

/// The world ranks of a communicator's members, in its order.
static std::vector<int> members(World& group, int world_rank)
{
  std::vector<int> all(static_cast<std::size_t>(group.size()));
  group.all_gather(std::array{world_rank}, all);
  return all;
}

/// The ranks that agree with `rank` on every axis but these, in the order of the mesh.
static std::vector<int> expected(const Mesh3& mesh, int rank, const std::array<bool, 3>& free)
{
  std::vector<int> list;
  for (int r = 0; r < mesh.size(); ++r)
  {
    bool agrees = true;
    for (std::size_t i = 0; i < 3; ++i)
      agrees = agrees && (free[i] || mesh.coordinates(r)[i] == mesh.coordinates(rank)[i]);
    if (agrees) list.push_back(r);
  }
  return list;
}

TEST_CASE("A group along axes has the ranks that differ only there, in the order of the mesh")
{
  for (const Three::Array extents :
       {Three::Array{2, 3, 2}, {1, 1, 1}, {2, 2, 2}, {3, 1, 4}, {1, 5, 1}, {1, 1, 2}, {1, 2, 2}})
  {
    if (!fits(Three::ranks(extents))) continue;
    require_clear(on_ranks<TestBackend>(Three::ranks(extents), [&](World& world) {
      const Mesh3 mesh{world, extents, 60};
      Findings found;
      const auto check = [&](const char* what, World& group, std::array<bool, 3> free) {
        const auto wanted = expected(mesh, mesh.rank(), free);
        found.check(members(group, mesh.rank()) == wanted, what, " of rank ", mesh.rank());
        found.check(wanted[static_cast<std::size_t>(group.rank())] == mesh.rank(), what, ": rank ",
                    mesh.rank(), " is its rank ", group.rank());
      };
      check("along nothing", mesh.along<>(), {false, false, false});
      check("along depth", mesh.along<Depth>(), {true, false, false});
      check("along row", mesh.along<Row>(), {false, true, false});
      check("along col", mesh.along<Col>(), {false, false, true});
      check("along depth, row", mesh.along<Depth, Row>(), {true, true, false});
      check("along depth, col", mesh.along<Depth, Col>(), {true, false, true});
      check("along row, col", mesh.along<Row, Col>(), {false, true, true});
      check("along everything", mesh.along<Depth, Row, Col>(), {true, true, true});
      return found;
    }));
  }
}

TEST_CASE("The order of axes does not matter")
{
  require_clear(on_ranks<TestBackend>(6, [](World& world) {
    const Mesh3 mesh{world, {1, 3, 2}, 6};
    Findings found;
    const auto* group = &mesh.along<Row, Col>();
    found.check(&mesh.along<Col, Row>() == group, "another group for the axes in another order");
    found.check(&mesh.along<Row, Col>() == group, "another group for the same axes");
    return found;
  }));
}

TEST_CASE("A copy is the same mesh, and another mesh of the same extents is not")
{
  require_clear(on_ranks<TestBackend>(4, [](World& world) {
    const Mesh3 mesh{world, {1, 2, 2}, 2};
    const Mesh3 other{world, {1, 2, 2}, 2};
    const Mesh3 copy = mesh;
    Findings found;
    found.check(copy == mesh, "the copy differs");
    found.check(!(other == mesh), "another mesh is the same");
    found.check(&copy.along<Row>() == &mesh.along<Row>(), "the copy has its own groups");
    return found;
  }));
}

TEST_CASE("Extents that do not multiply up to the world are refused on every rank")
{
  for (const auto& m : on_ranks<TestBackend>(4, [](World& world) {
         return message_of<MeshError>([&] { Mesh3{world, {1, 2, 3}, 6}; });
       }))
    CHECK(mentions(m, "depth 1 x row 2 x col 3", "6 ranks", "the world has 4", "whose product is"));
}

TEST_CASE("Extents whose product no int can hold are refused")
{
  for (const auto& m : on_ranks<TestBackend>(1, [](World& world) {
         return message_of<MeshError>([&] {
                  Mesh3{world, {1, 65536, 65536}, 1};
                }) +
                message_of<MeshError>([&] {
                  Mesh3{world, {65536, 65536, 2}, 1, IdleRanks::allowed};
                });
       }))
    CHECK(mentions(m, "row 65536 x col 65536", "left out or missing", "ranks would be missing"));
}

TEST_CASE("Extents below one are refused, though they multiply up to the world")
{
  for (const auto& m : on_ranks<TestBackend>(4, [](World& world) {
         return message_of<MeshError>([&] { Mesh3{world, {1, -2, -2}, 2}; });
       }))
    CHECK(mentions(m, "row -2 x col -2", "use positive extents"));
}

TEST_CASE(
    "A mesh without idle ranks has its parent's communicator, and allowing them changes nothing")
{
  using B = Counting<TestBackend>;
  const auto splits = on_ranks<B>(6, [](B::Communicator& world) {
    const auto messages = [&](auto make) {
      world.traffic().reset();
      make();
      return world.traffic().total().messages;
    };
    using Rows = AxisMesh<Axes<Row, Col>, B>;
    const auto plain = messages([&] { Rows{world, {2, 3}, 6}; });
    const auto allowed = messages([&] { Rows{world, {2, 3}, 6, IdleRanks::allowed}; });
    const Rows mesh{world, {2, 3}, 6, IdleRanks::allowed};
    return plain == allowed && mesh.active() && mesh.parent().size() == 6 && mesh.size() == 6;
  });
  for (const bool as_before : splits) CHECK(as_before);
}

TEST_CASE("The first ranks are the mesh, and the others are idle")
{
  if (!fits(8)) return;
  for (const Three::Array extents : {Three::Array{1, 2, 3}, {1, 1, 1}, {2, 2, 1}, {7, 1, 1}})
  {
    const int ranks = Three::ranks(extents);
    require_clear(on_ranks<TestBackend>(8, [&](World& world) {
      const Mesh3 mesh{world, extents, 60, IdleRanks::allowed};
      Findings found;
      found.check(mesh.rank() == world.rank() && mesh.size() == ranks, "rank or size");
      found.check(mesh.active() == (world.rank() < ranks), "active");
      found.check(mesh.parent().rank() == world.rank() && mesh.parent().size() == 8, "parent");
      found.check(mesh.extents() == extents && mesh.quantum() == 60, "extents or quantum");
      if (mesh.active())
      {
        const int r = mesh.rank();
        found.check(mesh.world().rank() == r && mesh.world().size() == ranks, "world");
        found.check(mesh.coordinates() == mesh.coordinates(r), "coordinates");
        found.check(members(mesh.along<Row>(), r) == expected(mesh, r, {false, true, false}),
                    "along row");
        found.check(members(mesh.along<Depth, Col>(), r) == expected(mesh, r, {true, false, true}),
                    "along depth, col");
        found.check(members(mesh.world(), r) == expected(mesh, r, {true, true, true}), "members");
      }
      else
      {
        found.check(mesh.coordinates() == Three::Array{}, "coordinates of an idle rank");
      }
      world.barrier();  // the parent can still be used
      return found;
    }));
  }
}

TEST_CASE("Collective calls of a mesh are refused on an idle rank")
{
  if (!fits(4)) return;
  const auto messages = on_ranks<TestBackend>(4, [](World& world) {
    const Mesh3 mesh{world, {1, 1, 3}, 3, IdleRanks::allowed};
    return message_of<MeshError>([&] { (void)mesh.world(); }) +
           message_of<MeshError>([&] { (void)mesh.along<Row>(); }) +
           message_of<MeshError>([&] { (void)mesh.along<Row, Col>(); });
  });
  for (std::size_t r = 0; r < 3; ++r) CHECK(messages[r].empty());
  CHECK(mentions(messages[3], "rank 3 made a collective call", "a mesh of 3 ranks",
                 "check active() first"));
}

TEST_CASE("Unused buffers belong to a mesh and its copies, those of each type apart")
{
  require_clear(on_ranks<TestBackend>(1, [](World& world) {
    const Mesh3 mesh{world, {1, 1, 1}, 6, IdleRanks::refused};
    const Mesh3 other{world, {1, 1, 1}, 6, IdleRanks::refused};
    const Mesh3 copy = mesh;
    mesh.unused_buffers<int>().emplace_back(3);
    Findings found;
    found.check(copy.unused_buffers<int>().size() == 1, "of a copy");
    found.check(copy.unused_buffers<float>().empty(), "of another type");
    found.check(other.unused_buffers<int>().empty(), "of another mesh");
    return found;
  }));
}

TEST_CASE("More ranks than the world has are refused, idle ranks or not")
{
  for (const auto& m : on_ranks<TestBackend>(4, [](World& world) {
         return message_of<MeshError>([&] { Mesh3{world, {1, 2, 3}, 6, IdleRanks::allowed}; });
       }))
    CHECK(
        mentions(m, "depth 1 x row 2 x col 3", "6 ranks", "the world has 4", "a smaller product"));
}

}  // namespace cubist::test::mesh_mesh_test
