// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/scheme/mesh.hpp"

#include "ranks.hpp"

namespace cubist::test::scheme_mesh_test
{

using World = TestBackend::Communicator;

/// Only the shape of a scheme: two rows of ranks.
struct TwoRows
{
  using Axes = cubist::Axes<Row, Col>;
  struct Extents
  {
    int cols = 0;
  };
  static Axes::Array extents(const Extents& requested, int ranks)
  {
    const int cols = requested.cols != 0 ? requested.cols : ranks / 2;
    require<MeshError>(2 * cols == ranks, "got ", ranks, " ranks; use ", 2 * cols);
    return {2, cols};
  }
  static std::size_t quantum(const Axes::Array& e) { return static_cast<std::size_t>(10 * e[1]); }
};

TEST_CASE("A mesh of a scheme has its extents and its quantum")
{
  if (!fits(6)) return;
  STATIC_REQUIRE(MeshShape<TwoRows>);
  STATIC_REQUIRE(
      std::is_base_of_v<AxisMesh<Axes<Row, Col>, TestBackend>, Mesh<TwoRows, TestBackend>>);
  require_clear(on_ranks<TestBackend>(6, [](World& world) {
    const Mesh<TwoRows, TestBackend> derived{world};
    const Mesh<TwoRows, TestBackend> requested{world, {.cols = 3}};
    Findings found;
    for (const auto& mesh : {derived, requested})
    {
      found.check(mesh.extents() == Axes<Row, Col>::Array{2, 3}, "extents");
      found.check(mesh.quantum() == 30, "quantum ", mesh.quantum());
    }
    return found;
  }));
}

TEST_CASE("A mesh whose scheme refuses the ranks cannot be built")
{
  for (const auto& m : on_ranks<TestBackend>(5, [](World& world) {
         return message_of<MeshError>([&] { Mesh<TwoRows, TestBackend>{world}; });
       }))
    CHECK(mentions(m, "got 5 ranks", "use 4"));
}

TEST_CASE("A mesh of a scheme takes exact extents and leaves ranks idle")
{
  require_clear(on_ranks<TestBackend>(8, [](World& world) {
    const Axes<Row, Col>::Array extents{2, 3};
    const Mesh<TwoRows, TestBackend> mesh{world, extents, IdleRanks::allowed};
    Findings found;
    found.check(mesh.extents() == extents && mesh.quantum() == 30, "extents or quantum");
    found.check(mesh.size() == 6 && mesh.active() == (world.rank() < 6), "size or active");
    const auto refused = message_of<MeshError>([&] {
      Mesh<TwoRows, TestBackend>{world, extents, IdleRanks::refused};
    });
    found.check(mentions(refused, "6 ranks", "the world has 8", "whose product is"), "refused");
    return found;
  }));
}

TEST_CASE("A mesh of a scheme takes extents by name, and leaves ranks idle where that is allowed")
{
  require_clear(on_ranks<TestBackend>(8, [](auto& world) {
    const Mesh<TwoRows, TestBackend> mesh{world, {.cols = 3}, IdleRanks::allowed};
    Findings found;
    found.check(mesh.extents() == Axes<Row, Col>::Array{2, 3} && mesh.quantum() == 30, "extents");
    found.check(mesh.size() == 6 && mesh.active() == (world.rank() < 6), "size or active");
    const TwoRows::Extents all{};
    found.check(Mesh<TwoRows, TestBackend>{world, all, IdleRanks::allowed}.size() == 8, "all");
    found.check(Mesh<TwoRows, TestBackend>{world, {.cols = 4}, IdleRanks::refused}.size() == 8,
                "refused, but none is idle");
    // Numbers without names are exact extents.
    const Mesh<TwoRows, TestBackend> exact{world, {1, 2}, IdleRanks::allowed};
    found.check(exact.extents() == Axes<Row, Col>::Array{1, 2}, "exact");
    for (const auto& message :
         {message_of<MeshError>([&] {
            Mesh<TwoRows, TestBackend>{world, {.cols = 3}, IdleRanks::refused};
          }),
          message_of<MeshError>([&] {
            Mesh<TwoRows, TestBackend>{world, {.cols = 5}, IdleRanks::allowed};
          })})
      found.check(mentions(message, "got 8 ranks; use "), message);
    return found;
  }));
}

}  // namespace cubist::test::scheme_mesh_test
