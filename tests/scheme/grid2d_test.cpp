// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/scheme/grid2d.hpp"

#include "extents.hpp"
#include "far.hpp"
#include "words.hpp"

namespace cubist::test::scheme_grid2d_test
{

TEST_CASE("Grid2D multiplies two matrices of 2 x 2")
{
  if (!fits(4)) return;
  CHECK((small_product<Grid2D>({4, {2, 2}}) == small_product_by_hand));
}

using Types = Subjects<Grid2D, TestBackend>;
using OtherTypes =
    AllOrFirst<std::tuple<Subject<Grid2D::Next, TestBackend, double>,
                          Subject<Grid2D, Far<TestBackend>, double, Op::transpose, Op::none>,
                          Subject<Grid2D, TestBackend, std::complex<float>, Op::none, Op::adjoint>>,
               std::tuple<Subject<Grid2D, Far<TestBackend>, double>,
                          Subject<Grid2D, TestBackend, double, Op::transpose, Op::transpose>>>;

template <class S>
const TestMeshes<S> meshes = {{8, {2, 4}}, {6, {3, 2}}, {6, {1, 6}},
                              {4, {4, 1}}, {1, {1, 1}}, {9, {3, 3}}};

TEMPLATE_LIST_TEST_CASE("Grid2D multiplies small integers exactly", "", Types)
{
  conform_exactly<TestType>(meshes<Grid2D>, 6);
}

TEMPLATE_LIST_TEST_CASE("Grid2D multiplies fractions within rounding", "", Types)
{
  conform_within_rounding<TestType>(meshes<Grid2D>);
}

TEMPLATE_LIST_TEST_CASE(
    "Grid2D's next layer, remote ranks and transposed operands give exact products", "", OtherTypes)
{
  conform_exactly<TestType>(meshes<typename TestType::Scheme>, 3);
}

constexpr auto error = extents_error<Grid2D>;

TEST_CASE("Grid2D derives the extents that are left out, and names some that fit")
{
  using Array = Grid2D::Axes::Array;
  CHECK(Grid2D::extents({}, 8) == Array{2, 4});
  CHECK(Grid2D::extents({.x = 4}, 8) == Array{4, 2});
  CHECK(Grid2D::extents({}, 7) == Array{1, 7});
  CHECK(mentions(error({.x = 3}, 8), "Grid2D got {.x = 3} for 8 ranks", "use {.x = 2, .y = 4}",
                 "or 3 ranks"));
  CHECK(mentions(error({.x = -2}, 8), "x = -2", "use a positive extent"));
}

/// Elements sent: [(y-1) MK + (x-1) MN] / xy for each rank. Rows are not cut, and so not padded.
static Words formula(std::uint64_t x, std::uint64_t y, ProductSize s, std::size_t quantum,
                     Gathered policy)
{
  const std::uint64_t mk = s.m * pad(s.k, quantum);
  const std::uint64_t mn = s.m * pad(s.n, quantum);
  const std::uint64_t f = (y - 1) * mk + (x - 1) * mn;
  if (policy == Gathered::kept) return {f, f, f, f, (x - 1) * mn};
  return {f, f, f, f + (y - 1) * mk, f};
}

TEST_CASE("Grid2D sends what its formula says, kept and gathered again")
{
  for (const auto& mesh : those_that_fit(meshes<Grid2D>))
    for (const ProductSize size : {ProductSize{144, 288, 432}, {37, 101, 23}, {1, 1, 1}, {5, 3, 0}})
      for (const auto policy : {Gathered::again, Gathered::kept})
      {
        const auto e = Grid2D::extents(mesh.extents, mesh.ranks);
        CAPTURE(Grid2D::Axes::to_string(e), text(size), policy == Gathered::kept);
        const auto n = [&](std::size_t i) { return static_cast<std::uint64_t>(e[i]); };
        CHECK(counted_words<Grid2D>(mesh, size, policy) ==
              formula(n(0), n(1), size, Grid2D::quantum(e), policy));
      }
}

TEST_CASE("MindSpore's sample is cut as its layouts say")
{
  // A mesh of 2 x 4 ranks, ones of (1024, 256) times (256, 512) times (512, 256).
  using Next = Grid2D::Next;
  const auto blocks = [](auto layout, Shape shape) {
    using L = decltype(layout);
    return L::template block<Grid2D::Axes>(shape, {2, 4}, {1, 2}, 8).padded();
  };
  CHECK(blocks(Grid2D::Input{}, {1024, 256}) == Shape{1024, 32});
  CHECK(blocks(Grid2D::Weight{}, {256, 512}) == Shape{128, 128});
  CHECK(blocks(Grid2D::Output{}, {1024, 512}) == Shape{1024, 64});
  CHECK(blocks(Next::Weight{}, {512, 256}) == Shape{128, 128});
  CHECK(blocks(Next::Output{}, {1024, 256}) == Shape{1024, 32});
}

}  // namespace cubist::test::scheme_grid2d_test
