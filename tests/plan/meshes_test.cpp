// SPDX-License-Identifier: BSD-3-Clause
#include <climits>
#include <set>

#include "cubist/plan/meshes.hpp"
#include "cubist/scheme/catalogue.hpp"

#include "ranks.hpp"

namespace cubist::test::plan_meshes_test
{

template <class S>
std::vector<typename S::Axes::Array> meshes(int most)
{
  std::vector<typename S::Axes::Array> all;
  for_each_mesh<S>(most, [&](const auto& extents) { all.push_back(extents); });
  return all;
}

TEST_CASE("All meshes of up to a number of ranks are listed")
{
  using Array2 = Summa2D::Axes::Array;
  using Array3 = Cube3D::Axes::Array;
  CHECK(meshes<Summa2D>(3) == std::vector<Array2>{{1, 1}, {1, 2}, {1, 3}, {2, 1}, {3, 1}});
  CHECK(meshes<Cube3D>(30) == std::vector<Array3>{{1, 1, 1}, {2, 2, 2}, {3, 3, 3}});
  CHECK(meshes<Summa25D>(5) ==
        std::vector<Array3>{{1, 1, 1}, {1, 2, 2}, {2, 1, 1}, {3, 1, 1}, {4, 1, 1}, {5, 1, 1}});
  CHECK(meshes<Megatron1D>(4).size() == 4);
}

TEST_CASE("Every mesh fits its scheme, and is listed once")
{
  for_each_scheme([]<class S>() {
    CAPTURE(S::name);
    const auto all = meshes<S>(12);
    CHECK(std::set<typename S::Axes::Array>(all.begin(), all.end()).size() == all.size());
    for (const auto& extents : all)
    {
      CHECK(S::fits(extents));
      CHECK(S::Axes::ranks(extents) <= 12);
    }
  });
}

TEST_CASE("The nearest mesh differs least and has no more ranks")
{
  CHECK(nearest_mesh<Cube3D>({4, 4, 3}) == Cube3D::Axes::Array{3, 3, 3});
  CHECK(nearest_mesh<Cube3D>({2, 1, 1}) == Cube3D::Axes::Array{1, 1, 1});
  CHECK(nearest_mesh<Summa25D>({2, 3, 2}) == Summa25D::Axes::Array{2, 2, 2});
  CHECK(nearest_mesh<Grid3D>({0, -3, 2}) == Grid3D::Axes::Array{1, 1, 2});
  CHECK(nearest_mesh<Summa2D>({INT_MAX, 0}) == Summa2D::Axes::Array{4096, 1});
}

TEST_CASE("Extents that a scheme cannot have are refused with the nearest that it can")
{
  const auto message = message_of<MeshError>([] { require_fit<Cube3D>({4, 4, 3}); });
  CHECK(mentions(message, "got the extents x 4 x y 4 x z 3 for Cube3D", "no such mesh",
                 "use the nearest, x 3 x y 3 x z 3"));
  CHECK(message_of<MeshError>([] { require_fit<Cube3D>({4, 4, 4}); }).empty());
}

TEST_CASE("A list of extents has one for each axis, and is a mesh of the scheme")
{
  CHECK(extents_from_list<Summa25D>({1, 2, 2}) == Summa25D::Axes::Array{1, 2, 2});
  CHECK(mentions(message_of<MeshError>([] {
                   (void)extents_from_list<Summa25D>({2, 2});
                 }),
                 "a mesh of 2 extents for Summa25D, which has 3 axes", "one extent for each axis"));
  CHECK(mentions(message_of<MeshError>([] {
                   (void)extents_from_list<Cube3D>({1, 2, 2});
                 }),
                 "for Cube3D", "use the nearest,"));
}

}  // namespace cubist::test::plan_meshes_test
