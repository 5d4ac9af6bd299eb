// SPDX-License-Identifier: BSD-3-Clause
#include <climits>

#include "cubist/scheme/summa2d.hpp"

#include "extents.hpp"
#include "words.hpp"

namespace cubist::test::scheme_summa2d_test
{

TEST_CASE("Summa2D multiplies two matrices of 2 x 2")
{
  if (!fits(4)) return;
  CHECK((small_product<Summa2D>({4, {.q = 2}}) == small_product_by_hand));
}

using Types = Subjects<Summa2D, TestBackend>;

template <class S>
const TestMeshes<S> meshes = {
    {1, {.q = 1}},
    {4, {.q = 2}},
    {6, {.rows = 2, .cols = 3}},
    {6, {.rows = 3, .cols = 2}},
    {4, {.rows = 1, .cols = 4}},
    {4, {.rows = 4, .cols = 1}},
    {9, {.q = 3}},
    {8, {.rows = 2, .cols = 4}},
};

TEMPLATE_LIST_TEST_CASE("Summa2D multiplies small integers exactly", "", Types)
{
  conform_exactly<TestType>(meshes<Summa2D>, 6);
}

TEMPLATE_LIST_TEST_CASE("Summa2D multiplies fractions within rounding", "", Types)
{
  conform_within_rounding<TestType>(meshes<Summa2D>);
}

using StationarySchemes = std::tuple<Summa2DInput, Summa2DWeight>;
using StationaryTypes = AllOrFirst<
    std::tuple<Subject<Summa2DInput, TestBackend, double>,
               Subject<Summa2DWeight, TestBackend, double>,
               Subject<Summa2DInput, TestBackend, double, Op::transpose, Op::transpose>,
               Subject<Summa2D, TestBackend, std::complex<float>, Op::adjoint, Op::adjoint>>,
    std::tuple<Subject<Summa2DWeight::Next, TestBackend, std::complex<float>>,
               Subject<Summa2DWeight, TestBackend, double, Op::transpose, Op::none>,
               Subject<Summa2DInput, TestBackend, std::complex<float>, Op::none, Op::adjoint>,
               Subject<Summa2DWeight, TestBackend, std::complex<float>, Op::adjoint, Op::adjoint>>>;

/// One mesh of each kind: square, high, flat, a single column.
template <class S>
const TestMeshes<S> few_meshes = {{4, {.q = 2}},
                                  {6, {.rows = 2, .cols = 3}},
                                  {6, {.rows = 3, .cols = 2}},
                                  {4, {.rows = 4, .cols = 1}}};

TEMPLATE_LIST_TEST_CASE("Summa2D multiplies with each matrix stationary", "", StationaryTypes)
{
  conform_exactly<TestType>(few_meshes<typename TestType::Scheme>, 3);
  if constexpr (TestType::op_w != Op::adjoint)
    conform_within_rounding<TestType>(few_meshes<typename TestType::Scheme>);
}

TEMPLATE_LIST_TEST_CASE("Summa2D sends what its formula says with each matrix stationary", "",
                        StationarySchemes)
{
  constexpr auto stationary =
      std::is_same_v<TestType, Summa2DInput> ? Stationary::input : Stationary::weight;
  for (const auto& mesh : those_that_fit(meshes<TestType>))
    for (const ProductSize size : {ProductSize{24, 36, 48}, {37, 101, 23}, {1, 1, 1}, {5, 3, 0}})
    {
      const auto e = TestType::extents(mesh.extents, mesh.ranks);
      CAPTURE(TestType::name, TestType::Axes::to_string(e), text(size));
      const Operands padded{size, TestType::quantum(e)};
      const auto r = static_cast<std::uint64_t>(e[0]);
      const auto c = static_cast<std::uint64_t>(e[1]);
      CHECK(counted_words<TestType>(mesh, size) == summa2d_words(stationary, r, c, padded));
    }
}

TEST_CASE("Summa2D derives the extents that are left out")
{
  using Array = Summa2D::Axes::Array;
  CHECK(Summa2D::extents({}, 1) == Array{1, 1});
  CHECK(Summa2D::extents({}, 4) == Array{2, 2});
  CHECK(Summa2D::extents({}, 6) == Array{2, 3});
  CHECK(Summa2D::extents({}, 12) == Array{3, 4});
  CHECK(Summa2D::extents({.q = 3}, 9) == Array{3, 3});
  CHECK(Summa2D::extents({.rows = 3}, 6) == Array{3, 2});
  CHECK(Summa2D::extents({.cols = 6}, 6) == Array{1, 6});
  CHECK(Summa2D::extents({.rows = 7, .cols = 1}, 7) == Array{7, 1});
}

TEST_CASE("Summa2D sends what its formula says")
{
  const TestMeshes<Summa2D> on = {{4, {.q = 2}},
                                  {9, {.q = 3}},
                                  {6, {.rows = 2, .cols = 3}},
                                  {6, {.rows = 3, .cols = 2}},
                                  {4, {.rows = 1, .cols = 4}},
                                  {8, {.rows = 4, .cols = 2}},
                                  {1, {.q = 1}}};
  for (const auto& mesh : those_that_fit(on))
    for (const ProductSize size : {ProductSize{24, 36, 48}, {37, 101, 23}, {1, 1, 1}, {5, 3, 0}})
    {
      const auto e = Summa2D::extents(mesh.extents, mesh.ranks);
      CAPTURE(Summa2D::Axes::to_string(e), text(size));
      const Operands padded{size, Summa2D::quantum(e)};
      const auto r = static_cast<std::uint64_t>(e[0]);
      const auto c = static_cast<std::uint64_t>(e[1]);
      CHECK(counted_words<Summa2D>(mesh, size) == summa2d_words(r, c, padded));
    }
  SECTION("by numbers computed by hand")
  {
    if (!fits(4)) return;
    // 2 x 2 ranks, 4 x 6 times 6 x 8. Every element of X and W is sent to one other rank.
    CHECK(counted_words<Summa2D>({4, {.q = 2}}, {.m = 4, .n = 8, .k = 6}) ==
          Words{72, 72, 72, 144, 72});
  }
}

constexpr auto error = extents_error<Summa2D>;

TEST_CASE("Summa2D refuses a prime number of ranks unless a single row is asked for")
{
  CHECK(mentions(error({}, 7), "Summa2D", "got 7 ranks", "6 or 8 ranks", "{.rows = 1, .cols = 7}"));
  CHECK(mentions(error({}, 2), "got 2 ranks", "1 or 4 ranks", "{.rows = 1, .cols = 2}"));
  CHECK(mentions(error({}, 3), "got 3 ranks", "1 or 4 ranks", "{.rows = 1, .cols = 3}"));
}

TEST_CASE("Summa2D names extents that would fit where those requested do not")
{
  CHECK(mentions(error({.rows = 2, .cols = 3}, 8), "Summa2D",
                 "got {.rows = 2, .cols = 3} for 8 ranks", "use {.rows = 2, .cols = 4}",
                 "or 6 ranks"));
  CHECK(mentions(error({.q = 3}, 8), "got {.q = 3}", "use {.rows = 2, .cols = 4}", "or 9 ranks"));
  CHECK(mentions(error({.q = 2}, 9), "use {.rows = 3, .cols = 3}", "or 4 ranks"));
  CHECK(mentions(error({.rows = 3}, 8), "got {.rows = 3}", "use {.rows = 2, .cols = 4}"));
}

TEST_CASE("Summa2D names extents that fit where those requested exceed the ranks")
{
  CHECK(mentions(error({.rows = 10}, 4), "use {.rows = 4, .cols = 1}", "or 10 ranks"));
  CHECK(mentions(error({.cols = 10}, 4), "use {.rows = 1, .cols = 4}", "or 10 ranks"));
  CHECK(mentions(error({.q = INT_MAX}, 4), "use {.rows = 2, .cols = 2}"));
  CHECK(mentions(error({.rows = INT_MAX, .cols = INT_MAX}, 6), "use {.rows = 6, .cols = 1}"));
}

TEST_CASE("Summa2D refuses negative extents")
{
  CHECK(mentions(error({.q = -2}, 4), "Summa2D", "q = -2", "4 ranks", "use a positive extent"));
  CHECK(mentions(error({.rows = -2, .cols = -2}, 4), "rows = -2", "use a positive extent"));
  CHECK(mentions(error({.cols = -1}, 4), "cols = -1", "use a positive extent"));
}

TEST_CASE("Summa2D refuses q beside rows or cols")
{
  CHECK(mentions(error({.q = 2, .rows = 2}, 4), "{.q = 2, .rows = 2}", "use q alone"));
  CHECK(mentions(error({.q = 2, .cols = 3}, 6), "{.q = 2, .cols = 3}", "use q alone"));
}

TEST_CASE("A mesh that cannot be built throws on every rank")
{
  const auto messages = on_ranks<TestBackend>(6, [](TestBackend::Communicator& world) {
    return message_of<MeshError>([&] { Mesh<Summa2D, TestBackend>{world, {.q = 2}}; });
  });
  for (const auto& m : messages) CHECK(mentions(m, "{.q = 2} for 6 ranks"));
}

}  // namespace cubist::test::scheme_summa2d_test
