// SPDX-License-Identifier: BSD-3-Clause
#include <climits>

#include "cubist/scheme/summa25d.hpp"

#include "extents.hpp"
#include "words.hpp"

namespace cubist::test::scheme_summa25d_test
{

TEST_CASE("Summa25D multiplies two matrices of 2 x 2")
{
  if (!fits(8)) return;
  CHECK((small_product<Summa25D>({8, {.q = 2, .d = 2}}) == small_product_by_hand));
}

using Types = Subjects<Summa25D, TestBackend>;

template <class S>
const TestMeshes<S> meshes = {
    {1, {.q = 1, .d = 1}}, {4, {.q = 2, .d = 1}},  {8, {.q = 2, .d = 2}},  {4, {.q = 1, .d = 4}},
    {9, {.q = 3, .d = 1}}, {16, {.q = 2, .d = 4}}, {18, {.q = 3, .d = 2}},
};

TEMPLATE_LIST_TEST_CASE("Summa25D multiplies small integers exactly", "", Types)
{
  conform_exactly<TestType>(meshes<Summa25D>, 6);
}

TEMPLATE_LIST_TEST_CASE("Summa25D multiplies fractions within rounding", "", Types)
{
  conform_within_rounding<TestType>(meshes<Summa25D>);
}

using StationarySchemes = std::tuple<Summa25DInput, Summa25DWeight>;
using StationaryTypes =
    AllOrFirst<std::tuple<Subject<Summa25DInput, TestBackend, double>,
                          Subject<Summa25DWeight, TestBackend, double>,
                          Subject<Summa25D, TestBackend, double, Op::transpose, Op::transpose>>,
               std::tuple<Subject<Summa25DWeight::Next, TestBackend, double>>>;

template <class S>
const TestMeshes<S> few_meshes = {
    {8, {.q = 2, .d = 2}}, {4, {.q = 1, .d = 4}}, {18, {.q = 3, .d = 2}}};

TEMPLATE_LIST_TEST_CASE("Summa25D multiplies with each matrix stationary", "", StationaryTypes)
{
  conform_exactly<TestType>(few_meshes<typename TestType::Scheme>, 3);
}

TEMPLATE_LIST_TEST_CASE("Summa25D sends what its formula says with each matrix stationary", "",
                        StationarySchemes)
{
  constexpr auto stationary =
      std::is_same_v<TestType, Summa25DInput> ? Stationary::input : Stationary::weight;
  for (const auto& mesh : those_that_fit(meshes<TestType>))
    for (const ProductSize size : {ProductSize{24, 36, 48}, {37, 101, 23}, {1, 1, 1}, {5, 3, 0}})
    {
      const auto e = TestType::extents(mesh.extents, mesh.ranks);
      CAPTURE(TestType::name, TestType::Axes::to_string(e), text(size));
      const Operands padded{size, TestType::quantum(e)};
      const auto d = static_cast<std::uint64_t>(e[0]);
      const auto q = static_cast<std::uint64_t>(e[1]);
      CHECK(counted_words<TestType>(mesh, size) == summa25d_words(stationary, q, d, padded));
    }
}

TEST_CASE("Summa25D derives the extents that are left out, q as large as it can be")
{
  using Array = Summa25D::Axes::Array;
  CHECK(Summa25D::extents({}, 1) == Array{1, 1, 1});
  CHECK(Summa25D::extents({}, 4) == Array{1, 2, 2});
  CHECK(Summa25D::extents({}, 7) == Array{7, 1, 1});
  CHECK(Summa25D::extents({}, 8) == Array{2, 2, 2});
  CHECK(Summa25D::extents({}, 36) == Array{1, 6, 6});
  CHECK(Summa25D::extents({.q = 2}, 16) == Array{4, 2, 2});
  CHECK(Summa25D::extents({.d = 2}, 8) == Array{2, 2, 2});
  CHECK(Summa25D::extents({.d = 2}, 18) == Array{2, 3, 3});
  CHECK(Summa25D::extents({.q = 1, .d = 6}, 6) == Array{6, 1, 1});
}

TEST_CASE("Summa25D sends what its formula says, with the sum of dW along depth")
{
  const TestMeshes<Summa25D> on = {{8, {.q = 2, .d = 2}},  {16, {.q = 2, .d = 4}},
                                   {4, {.q = 1, .d = 4}},  {4, {.q = 2, .d = 1}},
                                   {18, {.q = 3, .d = 2}}, {1, {.q = 1, .d = 1}}};
  for (const auto& mesh : those_that_fit(on))
    for (const ProductSize size : {ProductSize{24, 36, 48}, {37, 101, 23}, {1, 1, 1}, {5, 3, 0}})
    {
      const auto e = Summa25D::extents(mesh.extents, mesh.ranks);
      CAPTURE(Summa25D::Axes::to_string(e), text(size));
      const Operands padded{size, Summa25D::quantum(e)};
      const auto d = static_cast<std::uint64_t>(e[0]);
      const auto q = static_cast<std::uint64_t>(e[1]);
      CHECK(counted_words<Summa25D>(mesh, size) == summa25d_words(q, d, padded));
    }
  SECTION("by numbers computed by hand")
  {
    if (!fits(8)) return;
    // 2 layers of 2 x 2 ranks, 4 x 8 times 8 x 12. Every element of X is sent once, and of W once
    // in each layer. Each of dW's 96 elements is sent twice, from one of two layers on average.
    CHECK(counted_words<Summa25D>({8, {.q = 2, .d = 2}}, {.m = 4, .n = 12, .k = 8}) ==
          Words{224, 224, 224 + 192, 448 + 192, 224 + 192});
  }
}

constexpr auto error = extents_error<Summa25D>;

TEST_CASE("Summa25D names extents that would fit where those requested do not")
{
  CHECK(mentions(error({.q = 2, .d = 3}, 8), "Summa25D", "got {.q = 2, .d = 3} for 8 ranks",
                 "use {.q = 2, .d = 2}", "or 12 ranks"));
  CHECK(mentions(error({.q = 2, .d = 3}, 36), "use {.q = 2, .d = 9}", "or 12 ranks"));
  CHECK(mentions(error({.q = 3}, 20), "got {.q = 3}", "use {.q = 2, .d = 5}", "or 18 ranks"));
  CHECK(mentions(error({.d = 3}, 8), "got {.d = 3}", "use {.q = 2, .d = 2}", "or 3 ranks"));
  CHECK(mentions(error({.q = 2}, 6), "got {.q = 2}", "use {.q = 1, .d = 6}", "or 4 ranks"));
}

TEST_CASE("Summa25D names extents that fit where those requested exceed the ranks")
{
  CHECK(mentions(error({.q = 3}, 8), "use {.q = 2, .d = 2}", "or 9 ranks"));
  CHECK(mentions(error({.d = 9}, 8), "use {.q = 2, .d = 2}", "or 9 ranks"));
  CHECK(mentions(error({.q = INT_MAX}, 8), "use {.q = 2, .d = 2}"));
  CHECK(mentions(error({.q = INT_MAX, .d = INT_MAX}, 8), "use {.q = 2, .d = 2}"));
}

TEST_CASE("Summa25D refuses negative extents")
{
  CHECK(mentions(error({.q = -2}, 4), "Summa25D", "q = -2", "4 ranks", "use a positive extent"));
  CHECK(mentions(error({.q = -2, .d = 1}, 4), "q = -2", "use a positive extent"));
  CHECK(mentions(error({.d = -1}, 4), "d = -1", "use a positive extent"));
}

}  // namespace cubist::test::scheme_summa25d_test
