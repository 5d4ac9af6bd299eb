// SPDX-License-Identifier: BSD-3-Clause
#include <climits>

#include "cubist/scheme/cube3d.hpp"

#include "extents.hpp"
#include "words.hpp"

namespace cubist::test::scheme_cube3d_test
{

TEST_CASE("Cube3D multiplies two matrices of 2 x 2")
{
  if (!fits(8)) return;
  CHECK((small_product<Cube3D>({8, {.q = 2}}) == small_product_by_hand));
}

using Types = AllOrFirst<Subjects<Cube3D, TestBackend>,
                         std::tuple<Subject<Cube3D, TestBackend, float>,
                                    Subject<Cube3D, TestBackend, std::complex<double>>>>;
using NextTypes = std::tuple<Subject<Cube3D::Next, TestBackend, double>>;

template <class S>
const TestMeshes<S> meshes = {{1, {.q = 1}}, {8, {.q = 2}}, {27, {.q = 3}}};

TEMPLATE_LIST_TEST_CASE("Cube3D multiplies small integers exactly", "", Types)
{
  conform_exactly<TestType>(meshes<Cube3D>, 12);
}

TEMPLATE_LIST_TEST_CASE("Cube3D multiplies fractions within rounding", "", Types)
{
  conform_within_rounding<TestType>(meshes<Cube3D>);
}

TEMPLATE_LIST_TEST_CASE("The next layer's Cube3D multiplies small integers exactly", "", NextTypes)
{
  conform_exactly<TestType>(meshes<Cube3D::Next>, 5);
}

TEST_CASE("Cube3D derives its edge from the ranks")
{
  using Array = Cube3D::Axes::Array;
  CHECK(Cube3D::extents({}, 1) == Array{1, 1, 1});
  CHECK(Cube3D::extents({}, 8) == Array{2, 2, 2});
  CHECK(Cube3D::extents({}, 512) == Array{8, 8, 8});
  CHECK(Cube3D::extents({.q = 3}, 27) == Array{3, 3, 3});
}

TEST_CASE("Cube3D sends what its formula says, kept and gathered again")
{
  const TestMeshes<Cube3D> on = {{1, {.q = 1}}, {8, {.q = 2}}, {27, {.q = 3}}, {64, {.q = 4}}};
  for (const auto& mesh : those_that_fit(on))
    for (const ProductSize size : {ProductSize{144, 288, 432}, {37, 101, 23}, {1, 1, 1}, {5, 3, 0}})
      for (const auto policy : {Gathered::again, Gathered::kept})
      {
        const auto e = Cube3D::extents(mesh.extents, mesh.ranks);
        CAPTURE(Cube3D::Axes::to_string(e), text(size), policy == Gathered::kept);
        const Operands padded{size, Cube3D::quantum(e)};
        const auto q = static_cast<std::uint64_t>(e[0]);
        CHECK(counted_words<Cube3D>(mesh, size, policy) == grid3d_words(q, q, q, padded, policy));
      }
  SECTION("by numbers computed by hand")
  {
    if (!fits(8)) return;
    // 2 x 2 x 2 ranks, 4 x 8 times 8 x 12. Each product sends every element of X, W and Y once.
    // Backward gathers dY once, and X and W again unless they are kept. Without dX, it does not
    // gather W, and does not sum dX.
    const TestMesh<Cube3D> cube{8, {.q = 2}};
    const ProductSize size{.m = 4, .n = 12, .k = 8};
    const std::uint64_t f = 32 + 96 + 48;
    CHECK(counted_words<Cube3D>(cube, size, Gathered::kept) == Words{f, f, f, f, f - 32});
    CHECK(counted_words<Cube3D>(cube, size, Gathered::again) == Words{f, f, f, f + 32 + 96, f});
  }
}

TEST_CASE("216 ranks multiply on a 6 x 6 x 6 cube")
{
  using Sub = Subject<Cube3D, TestBackend, double>;
  const int q = repeats(6, 4);
  if (!fits(q * q * q)) return;
  const std::vector<ProductSize> sizes = {{.m = 96, .n = 72, .k = 80},
                                          {.m = 321, .n = 130, .k = 257}};
  std::vector<Layer<double>> layers;
  for (const auto& s : sizes) layers.push_back(random_layer<double>(s, layers.size()));
  require_clear(on_ranks<TestBackend>(q * q * q, [&](TestBackend::Communicator& world) {
    const Mesh<Cube3D, TestBackend> mesh{world, {.q = q}};
    Findings found;
    for (std::size_t i = 0; i < sizes.size(); ++i)
      for (const auto& way : ways<TestBackend>())
        if (way.policy == Gathered::kept || way.method == Method::direct)
          Conformance<Sub>{mesh, sizes[i], way}.check_exactly(layers[i], found);
    return found;
  }));
}

constexpr auto error = extents_error<Cube3D>;

TEST_CASE("Cube3D refuses 6 ranks and names numbers of ranks and a scheme that fit")
{
  if (!fits(6)) return;
  CHECK(mentions(error({}, 6), "Cube3D got 6 ranks", "use 1 or 8 ranks",
                 "Grid3D, which takes any number"));
  CHECK(mentions(error({}, 100), "Cube3D got 100 ranks", "use 64 or 125 ranks"));
  const auto messages = on_ranks<TestBackend>(6, [](TestBackend::Communicator& world) {
    return message_of<MeshError>([&] { Mesh<Cube3D, TestBackend>{world}; });
  });
  for (const auto& m : messages) CHECK(mentions(m, "Cube3D got 6 ranks"));
}

TEST_CASE("Cube3D names an edge that would fit instead of one that does not")
{
  CHECK(mentions(error({.q = 2}, 27), "got {.q = 2} for 27 ranks", "use {.q = 3}", "or 8 ranks"));
  CHECK(
      mentions(error({.q = 3}, 6), "got {.q = 3} for 6 ranks", "use 1 or 8 ranks", "or 27 ranks"));
  CHECK(mentions(error({.q = INT_MAX}, 8), "use {.q = 2}"));
}

TEST_CASE("Cube3D refuses a negative edge")
{
  CHECK(mentions(error({.q = -2}, 8), "Cube3D", "q = -2", "8 ranks", "use a positive extent"));
}

}  // namespace cubist::test::scheme_cube3d_test
