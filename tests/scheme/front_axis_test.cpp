// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/scheme/cube3d.hpp"
#include "cubist/scheme/front_axis.hpp"
#include "cubist/scheme/summa2d.hpp"

#include "ranks.hpp"

namespace cubist::test::scheme_front_axis_test
{

inline constexpr char front[] = "Several";

template <class S>
struct Several : detail::FrontAxis<front, Depth, S>
{
  static auto extents(int meshes, typename S::Extents scheme, int ranks)
  {
    return Several::extents_along("meshes", meshes, scheme, ranks);
  }
};

using Cubes = Several<Cube3D>;
static_assert(std::is_same_v<Cubes::Axes, Axes<Depth, AxisX, AxisY, AxisZ>>);
static_assert(Cubes::of_scheme(Cubes::extents_of(3, {2, 4, 5})) == Cube3D::Axes::Array{2, 4, 5});
static_assert(Cubes::fits({3, 2, 2, 2}) && !Cubes::fits({3, 2, 2, 1}) &&
              !Cubes::fits({0, 2, 2, 2}));
static_assert(Cubes::quantum({3, 2, 2, 2}) == Cube3D::quantum({2, 2, 2}));

TEST_CASE("a scheme with an axis in front has its scheme's name and extents in its own")
{
  CHECK(std::string{Cubes::name} == "Several<Cube3D>");
  CHECK(Cubes::extents(3, {2}, 24) == Cubes::Axes::Array{3, 2, 2, 2});
  CHECK(Cubes::extents(0, {}, 16) == Cubes::Axes::Array{2, 2, 2, 2});
  CHECK(Cubes::extents(0, {}, 6) == Cubes::Axes::Array{6, 1, 1, 1});
  CHECK(Several<Summa2D>::extents(0, {.q = 2}, 12) == Several<Summa2D>::Axes::Array{3, 2, 2});
}

TEST_CASE("a scheme with an axis in front names extents that would fit")
{
  const auto error = [](int meshes, int q, int ranks) {
    return message_of<MeshError>([&] { (void)Cubes::extents(meshes, {q}, ranks); });
  };
  CHECK(mentions(error(3, 0, 8), "Several<Cube3D> got .meshes = 3", "8 ranks", "use .meshes = 2",
                 "or 9 ranks"));
  CHECK(mentions(error(-1, 0, 8), "meshes = -1", "use a positive extent"));
  CHECK(mentions(error(2, 0, 8), "Cube3D", "4 ranks"));
  CHECK(mentions(error(0, 3, 8), "Cube3D", "8 ranks"));
}

}  // namespace cubist::test::scheme_front_axis_test
