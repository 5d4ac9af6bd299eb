// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/scheme/grid3d.hpp"

#include "extents.hpp"
#include "words.hpp"

namespace cubist::test::scheme_grid3d_test
{

TEST_CASE("Grid3D multiplies two matrices of 2 x 2")
{
  if (!fits(8)) return;
  CHECK((small_product<Grid3D>({8, {2, 2, 2}}) == small_product_by_hand));
}

using Types = Subjects<Grid3D, TestBackend>;
using OtherTypes = AllOrFirst<
    std::tuple<Subject<Grid3D::Next, TestBackend, double>,
               Subject<Grid3D, TestBackend, std::complex<float>, Op::adjoint, Op::transpose>>,
    std::tuple<Subject<Grid3D, TestBackend, double, Op::transpose, Op::none>,
               Subject<Grid3D, TestBackend, std::complex<float>, Op::none, Op::adjoint>>>;

template <class S>
const TestMeshes<S> meshes = {{6, {1, 2, 3}}, {6, {3, 2, 1}}, {12, {2, 3, 2}}, {6, {1, 1, 6}},
                              {8, {4, 2, 1}}, {1, {1, 1, 1}}, {2, {2, 1, 1}},  {3, {1, 3, 1}}};

TEMPLATE_LIST_TEST_CASE("Grid3D multiplies small integers exactly", "", Types)
{
  conform_exactly<TestType>(meshes<Grid3D>, 6);
}

TEMPLATE_LIST_TEST_CASE("Grid3D multiplies fractions within rounding", "", Types)
{
  conform_within_rounding<TestType>(meshes<Grid3D>);
}

TEMPLATE_LIST_TEST_CASE("Grid3D's next layer and transposed operands give exact products", "",
                        OtherTypes)
{
  conform_exactly<TestType>(meshes<typename TestType::Scheme>, 3);
}

TEST_CASE("Grid3D derives the extents that are left out")
{
  using Array = Grid3D::Axes::Array;
  CHECK(Grid3D::extents({}, 1) == Array{1, 1, 1});
  CHECK(Grid3D::extents({}, 6) == Array{1, 2, 3});
  CHECK(Grid3D::extents({}, 8) == Array{2, 2, 2});
  CHECK(Grid3D::extents({}, 7) == Array{1, 1, 7});
  CHECK(Grid3D::extents({.y = 3}, 12) == Array{2, 3, 2});
  CHECK(Grid3D::extents({.x = 4, .z = 2}, 16) == Array{4, 2, 2});
  CHECK(Grid3D::fits({1, 2, 3}));
  CHECK_FALSE(Grid3D::fits({1, 0, 3}));
}

TEST_CASE("Grid3D sends what its formula says, kept and gathered again")
{
  for (const auto& mesh : those_that_fit(meshes<Grid3D>))
    for (const ProductSize size : {ProductSize{144, 288, 432}, {37, 101, 23}, {1, 1, 1}, {5, 3, 0}})
      for (const auto policy : {Gathered::again, Gathered::kept})
      {
        const auto e = Grid3D::extents(mesh.extents, mesh.ranks);
        CAPTURE(Grid3D::Axes::to_string(e), text(size), policy == Gathered::kept);
        const Operands padded{size, Grid3D::quantum(e)};
        const auto n = [&](std::size_t i) { return static_cast<std::uint64_t>(e[i]); };
        CHECK(counted_words<Grid3D>(mesh, size, policy) ==
              grid3d_words(n(0), n(1), n(2), padded, policy));
      }
}

constexpr auto error = extents_error<Grid3D>;

TEST_CASE("Grid3D names extents that would fit where those requested do not")
{
  CHECK(mentions(error({.x = 2, .y = 2, .z = 2}, 12), "got {.x = 2, .y = 2, .z = 2} for 12 ranks",
                 "use {.x = 2, .y = 2, .z = 3}", "or 8 ranks"));
  CHECK(mentions(error({.y = 5}, 12), "got {.y = 5} for 12 ranks", ".y = 4", "or 5 ranks"));
  CHECK(mentions(error({.z = -1}, 6), "z = -1", "use a positive extent"));
}

}  // namespace cubist::test::scheme_grid3d_test
