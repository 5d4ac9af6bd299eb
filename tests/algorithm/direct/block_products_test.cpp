// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/algorithm/direct/block_products.hpp"

#include "catch.hpp"
#include "placements.hpp"

namespace cubist::test::algorithm_direct_block_products_test
{

using namespace cubist::detail;

// work_assignment_test.cpp tests that all ranks together multiply every pair of elements once, by
// strips as well.

static Range all(std::size_t n) { return {0, n, n}; }

TEST_CASE("One product is the first for each piece of the result, and inner indices are in order")
{
  // Two pieces of rows, too large to be assembled, and four of inner indices.
  const auto found =
      products_by_panels(blocks({512, 1024}, 2, 2), blocks({1024, 512}, 4, 1),
                         {{all(512), {128, 128, 128}}, {3, 5, 7}}, all(1024), 1, {1, 1, 0.5});
  REQUIRE(found.size() == 8);
  for (std::size_t i = 0; i < found.size(); ++i)
  {
    const auto& t = found[i];
    CHECK(t.c.rank == 3);
    CHECK(t.c.i == 5 + i % 2 * 256);
    CHECK(t.c.j == 7);
    CHECK(t.size.m == 256);
    CHECK(t.size.k == 256);
    CHECK(t.first == (i < 2));
    CHECK(t.b.front().from.rank == static_cast<int>(i / 2));
    CHECK(t.b.front().from.j == 128);
  }
}

TEST_CASE("Only inner indices of the part are multiplied")
{
  const auto found = products_by_panels(blocks({64, 1024}, 1, 2), blocks({1024, 64}, 1, 2),
                                        {{all(64), all(32)}, {}}, {300, 400, 400}, 0, {1, 1, 0.5});
  REQUIRE(found.size() == 2);
  CHECK(found[0].a.front().from.j == 300);
  CHECK(found[0].b.front().from.i == 300);
  CHECK(found[0].size.k == 212);
  CHECK(found[1].a.front().from.rank == 1);
  CHECK(found[1].a.front().from.j == 0);
  CHECK(found[1].b.front().from.i == 512);
  CHECK(found[1].size.k == 188);
}

/// Rank 0's block products for a whole product.
static std::vector<BlockProduct> products(const Placement& a, const Placement& b)
{
  return products_by_panels(a, b, {{all(a.shape().rows), all(b.shape().cols)}, {}},
                            all(a.shape().cols), 0, {1, 1, 0.5});
}

static std::vector<Shape> shapes(const std::vector<BlockProduct::Piece>& pieces)
{
  std::vector<Shape> found;
  for (const auto& p : pieces) found.push_back(p.to.shape);
  return found;
}

using Shapes = std::vector<Shape>;

TEST_CASE("Small pieces of rows or columns are assembled, in panels")
{
  // A has 4 pieces of 64 rows. Copied together, they let B be packed once instead of four times.
  const auto found = products(blocks({256, 3000}, 4, 1), blocks({3000, 256}, 1, 1, 4));
  REQUIRE(found.size() == 3);
  CHECK(shapes(found[0].a) == Shapes(4, {64, 1024}));
  CHECK(found[0].a[2].to.i == 128);
  CHECK(found[0].b.size() == 1);
  CHECK(found[2].size.k == 3000 - 2048);
  CHECK(found[2].a[1].from.rank == 1);
  CHECK(found[2].a[1].from.j == 2048);

  const auto turned = products(blocks({256, 3000}, 1, 1, 4), blocks({3000, 256}, 1, 4));
  REQUIRE(turned.size() == 3);
  CHECK(turned[0].a.size() == 1);
  CHECK(shapes(turned[0].b) == Shapes(4, {1024, 64}));

  // Panels have the same length in bytes for all scalars.
  const auto of_doubles =
      products_by_panels(blocks({256, 3000}, 4, 1), blocks({3000, 256}, 1, 1, 4),
                         {{all(256), all(256)}, {}}, all(3000), 0, GemmTimes::of(sizeof(double)));
  CHECK(shapes(of_doubles[0].a) == Shapes(4, {64, 512}));
  CHECK(of_doubles[5].size.k == 3000 - 5 * 512);

  // A slower copy pays off later, and copying many rows does not pay off for few columns.
  const auto rows = blocks({256, 8}, 2, 1);
  const auto half = [&](double copy) {
    return products_by_panels(rows, blocks({8, 200}, 1, 1, 2), {{all(256), all(200)}, {}}, all(8),
                              0, {1, 1, copy})
        .size();
  };
  CHECK(half(0.5) == 1);
  CHECK(half(1) == 2);
  CHECK(products(blocks({256, 3000}, 4, 1), blocks({3000, 8}, 1, 1, 4)).size() == 4);
}

TEST_CASE("A factor assembled for one product is used by the next")
{
  // A's rows are assembled, B's columns are not.
  const auto found = products(blocks({64, 8}, 8, 1), blocks({8, 4096}, 1, 8));
  REQUIRE(found.size() == 8);
  CHECK(found[0].a.size() == 8);
  const auto turned = products(blocks({4096, 8}, 8, 1), blocks({8, 64}, 1, 8));
  REQUIRE(turned.size() == 8);
  CHECK(turned[0].b.size() == 8);
  for (std::size_t i = 0; i < 8; ++i)
  {
    CHECK(found[i].same_a == (i > 0));
    CHECK_FALSE(found[i].same_b);
    CHECK(turned[i].same_b == (i > 0));
  }
}

TEST_CASE("Thin pieces of one factor are merged under a block of the other")
{
  const auto found = products(blocks({256, 640}, 1, 1, 10), blocks({640, 8}, 10, 1));
  REQUIRE(found.size() == 2);
  CHECK(shapes(found[0].a) == Shapes{{256, 512}});
  CHECK(shapes(found[0].b) == Shapes(8, {64, 8}));
  CHECK(found[0].b[3].to.i == 3 * 64);
  CHECK(found[0].size.k == 512);
  CHECK(found[0].first);
  CHECK(found[1].a.front().from.j == 512);
  CHECK(shapes(found[1].b) == Shapes(2, {64, 8}));
  CHECK_FALSE(found[1].first);

  const auto turned = products(blocks({8, 640}, 1, 10), blocks({640, 256}, 1, 1, 10));
  REQUIRE(turned.size() == 2);
  CHECK(shapes(turned[0].a) == Shapes(8, {8, 64}));
  CHECK(shapes(turned[0].b) == Shapes{{512, 256}});
}

TEST_CASE("Deeper pieces are merged where the other factor is larger")
{
  CHECK(products(blocks({2048, 1024}, 1, 1, 4), blocks({1024, 8}, 4, 1)).size() == 2);
  CHECK(products(blocks({1024, 1024}, 1, 1, 4), blocks({1024, 8}, 4, 1)).size() == 4);
}

TEST_CASE("A copy that does not pay is not made")
{
  CHECK(products(blocks({255, 640}, 1, 1, 10), blocks({640, 8}, 10, 1)).size() == 10);
  CHECK(products(blocks({256, 1280}, 1, 1, 10), blocks({1280, 8}, 10, 1)).size() == 10);
  CHECK(products(blocks({256, 256}, 1, 4), blocks({256, 256}, 4, 1)).size() == 4);
}

TEST_CASE("Very thin pieces of both factors are merged")
{
  const auto found = products(blocks({8, 160}, 1, 10), blocks({160, 8}, 10, 1));
  REQUIRE(found.size() == 2);
  CHECK(shapes(found[0].a) == Shapes(8, {8, 16}));
  CHECK(shapes(found[0].b) == Shapes(8, {16, 8}));
  CHECK(found[1].size.k == 32);
}

TEST_CASE("Where nothing is copied, blocks are multiplied as a whole")
{
  const auto found = products(blocks({64, 5000}, 1, 1, 2), blocks({5000, 64}, 1, 1, 2));
  REQUIRE(found.size() == 1);
  CHECK(found[0].size.k == 5000);
  CHECK(found[0].time({}) == Approx(64. * 64 * 5000 / 56 + 128 * 5000 + 64 * 64 / 2));
}

TEST_CASE("A copy takes time by its bytes, and long scalars are multiplied faster in wide blocks")
{
  const auto floats = GemmTimes::of(sizeof(float));
  const auto doubles = GemmTimes::of(sizeof(double));
  CHECK(floats.copy * 2 == doubles.copy);
  CHECK(floats.panel == doubles.panel * 2);
  CHECK(floats({64, 512, 100}) == floats({512, 64, 100}));
  CHECK(doubles({64, 512, 100}) < doubles({512, 64, 100}));
  auto block_product = products(blocks({64, 8}, 8, 1), blocks({8, 4096}, 1, 8)).front();
  const double copied = block_product.time(doubles);
  block_product.same_a = true;
  CHECK(copied - block_product.time(doubles) == Approx(64. * 8));
}

TEST_CASE("Strips have as many rows as fit a cache beside B")
{
  const GemmTimes doubles = GemmTimes::of(sizeof(double));
  const GemmTimes floats = GemmTimes::of(sizeof(float));
  CHECK(rows_per_strip({4096, 256, 256}, doubles) == 256);
  CHECK(rows_per_strip({4096, 256, 256}, floats) == 512);
  // A strip has whole lines of the kernel, and is no larger than the cache.
  CHECK(rows_per_strip({100'000, 3, 1100}, doubles) == 0);
  CHECK(rows_per_strip({100'000, 3, 700}, doubles) == 128);
  CHECK(rows_per_strip({100'000, 100, 150}, doubles) == 512);
  // One strip would have all rows.
  CHECK(rows_per_strip({256, 256, 256}, doubles) == 0);
  CHECK(rows_per_strip({257, 256, 256}, doubles) == 256);
  // B is too large.
  CHECK(rows_per_strip({4096, 257, 256}, doubles) == 0);
  CHECK(rows_per_strip({4096, 4096, 4096}, floats) == 0);
  CHECK(rows_per_strip({4096, 0, 256}, doubles) == 0);
  CHECK(rows_per_strip({4096, 256, 0}, doubles) == 0);
}

/// Times for a cache that holds this many elements.
static GemmTimes times_with(std::size_t cached)
{
  GemmTimes times;
  times.cached = cached;
  return times;
}

TEST_CASE("A is assembled once for all parts with its rows, B once for all strips")
{
  // Each row of A has two pieces, and B has four; two parts have the same rows, and the third has
  // different ones.
  const auto a = blocks({600, 40}, 2, 2);
  const auto b = blocks({40, 40}, 2, 2);
  const std::vector<TargetPart> parts{{{{0, 300, 300}, {0, 20, 20}}, {0, 0, 0}},
                                      {{{0, 300, 300}, {20, 20, 20}}, {1, 7, 0}},
                                      {{{300, 300, 300}, {0, 20, 20}}, {2, 0, 3}}};
  const auto products = block_products(a, b, parts, all(40), 0, times_with(140 * 80));
  REQUIRE(products.size() == 9);
  for (std::size_t i = 0; i < 6; ++i)
  {
    const auto& t = products[i];
    CAPTURE(i);
    CHECK(t.c.rank == static_cast<int>(i % 2));
    CHECK(t.c.i == i / 2 * 128 + (i % 2 == 0 ? 0 : 7));
    CHECK(t.size.m == (i < 4 ? 128 : 44));
    CHECK(t.size.n == 20);
    CHECK(t.size.k == 40);
    CHECK(t.first);
    CHECK(t.a.size() == 2);
    CHECK(t.b.size() == 2);
    CHECK(t.same_a == (i % 2 == 1));
    CHECK(t.same_b == (i >= 2));
    CHECK(t.b_slot == i % 2);
  }
  for (std::size_t i = 6; i < 9; ++i)
  {
    CHECK(products[i].c.rank == 2);
    CHECK(products[i].c.i == (i - 6) * (products[6].size.m));
    CHECK(products[i].c.j == 3);
    CHECK_FALSE(products[i].same_a);
    CHECK(products[i].same_b == (i > 6));
    CHECK(products[i].b_slot == 0);
  }
}

TEST_CASE("Parts that do not fit a cache are multiplied one after the other")
{
  const auto a = blocks({600, 40}, 2, 2);
  const auto b = blocks({40, 40}, 2, 2);
  const std::vector<TargetPart> parts{{{{0, 300, 300}, {0, 20, 20}}, {0, 0, 0}},
                                      {{{0, 300, 300}, {20, 20, 20}}, {1, 0, 0}}};
  const auto products = block_products(a, b, parts, all(40), 0, times_with(100));
  std::vector<BlockProduct> expected;
  for (const auto& target : parts)
    for (auto& t : products_by_panels(a, b, target, all(40), 0, times_with(100)))
      expected.push_back(t);
  REQUIRE(products.size() == expected.size());
  for (std::size_t i = 0; i < products.size(); ++i)
  {
    CHECK(products[i].c.rank == expected[i].c.rank);
    CHECK(products[i].size.m == expected[i].size.m);
    CHECK(products[i].size.k == expected[i].size.k);
  }
  CHECK(block_products(a, b, {}, all(40), 0, {}).empty());
}

TEST_CASE("To predict a time, equal products are listed once, however large the matrices are")
{
  const auto time = [](const std::vector<BlockProduct>& products) {
    double all = 0;
    for (const auto& p : products) all += p.time(times_with(140 * 80));
    return all;
  };
  // Some strips cross a boundary of A, and some panels are assembled from rows of A.
  const auto strips = [](std::size_t rows, ProductList list) {
    const auto a = blocks({rows, 40}, 3, 1);
    const auto b = blocks({40, 40}, 2, 2);
    return block_products(a, b, {{{all(rows), {0, 20, 20}}, {}}, {{all(rows), {20, 20, 20}}, {}}},
                          all(40), 0, times_with(140 * 80), list);
  };
  const auto panels = [](std::size_t inner, ProductList list) {
    return block_products(blocks({256, inner}, 4, 2), blocks({inner, 256}, 1, 1, 8),
                          {{{all(256), all(256)}, {}}}, all(inner), 0, times_with(140 * 80), list);
  };
  const auto check = [&](auto products, std::size_t size) {
    const auto each = products(size, ProductList::to_compute);
    const auto once = products(size, ProductList::to_predict);
    CHECK(once.size() < each.size());
    CHECK(time(once) == Approx(time(each)));
    std::size_t listed = 0;
    for (const auto& p : once) listed += p.repeats;
    CHECK(listed == each.size());
    // The list is as short for 2^50 rows.
    CHECK(products(std::size_t{1} << 50U, ProductList::to_predict).size() <= once.size() + 2);
  };
  check(strips, 12'800 + 77);
  check(panels, 30'000);
}

}  // namespace cubist::test::algorithm_direct_block_products_test
