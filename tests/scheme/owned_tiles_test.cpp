// SPDX-License-Identifier: BSD-3-Clause
#include <cstddef>
#include <vector>

#include "cubist/scheme/owned_tiles.hpp"

#include "catch.hpp"
#include "placements.hpp"

using namespace cubist;
using namespace cubist::detail;
using namespace cubist::test;

namespace
{

Range all(std::size_t n) { return {0, n, n}; }

/// The tiles of rank 0 for a whole product.
std::vector<OwnedTile> tiles(const Placement& a, const Placement& b)
{
  return owned_tiles(a, b, {all(a.shape().rows), all(b.shape().cols)}, all(a.shape().cols), {}, 0);
}

std::vector<std::size_t> depths(const std::vector<OwnedTile::Piece>& pieces)
{
  std::vector<std::size_t> all_of_them;
  for (const auto& p : pieces) all_of_them.push_back(p.depth);
  return all_of_them;
}

using Depths = std::vector<std::size_t>;

}  // namespace

TEST_CASE("Each piece of the result is begun once, and its inner indices are in order")
{
  const auto found = owned_tiles(blocks({512, 1024}, 2, 2), blocks({1024, 512}, 4, 1),
                                 {all(512), {128, 128, 128}}, all(1024), {0, 128, {}}, 1);
  std::size_t begun = 0;
  for (std::size_t i = 0; i < found.size(); ++i)
  {
    const auto& t = found[i];
    CHECK(t.c.j == 0);
    CHECK(t.size.k == 256);
    begun += t.first ? 1 : 0;
    if (t.first) continue;
    CHECK(found[i - 1].c.i == t.c.i);
    CHECK(found[i - 1].b.front().at.rank < t.b.front().at.rank);
  }
  CHECK(begun == 2);
  CHECK(found.size() == 8);
}

TEST_CASE("Only inner indices of the part are multiplied")
{
  const auto found = owned_tiles(blocks({64, 1024}, 1, 2), blocks({1024, 64}, 1, 2),
                                 {all(64), all(32)}, {300, 400, 400}, {}, 0);
  REQUIRE(found.size() == 2);
  CHECK(found[0].a.front().at.j == 300);
  CHECK(found[0].b.front().at.i == 300);
  CHECK(found[0].size.k == 212);
  CHECK(found[1].a.front().at.rank == 1);
  CHECK(found[1].a.front().at.j == 0);
  CHECK(found[1].b.front().at.i == 512);
  CHECK(found[1].size.k == 188);
}

TEST_CASE("Thin pieces of one factor are merged under a block of the other")
{
  const auto found = tiles(blocks({256, 640}, 1, 1, 10), blocks({640, 8}, 10, 1));
  REQUIRE(found.size() == 2);
  CHECK(depths(found[0].a) == Depths{512});
  CHECK(depths(found[0].b) == Depths(8, 64));
  CHECK(found[0].size.k == 512);
  CHECK(found[0].first);
  CHECK(found[1].a.front().at.j == 512);
  CHECK(depths(found[1].b) == Depths(2, 64));
  CHECK_FALSE(found[1].first);

  const auto turned = tiles(blocks({8, 640}, 1, 10), blocks({640, 256}, 1, 1, 10));
  REQUIRE(turned.size() == 2);
  CHECK(depths(turned[0].a) == Depths(8, 64));
  CHECK(depths(turned[0].b) == Depths{512});
}

TEST_CASE("A copy that would not pay is not made")
{
  CHECK(tiles(blocks({255, 640}, 1, 1, 10), blocks({640, 8}, 10, 1)).size() == 10);
  CHECK(tiles(blocks({256, 1280}, 1, 1, 10), blocks({1280, 8}, 10, 1)).size() == 10);
  CHECK(tiles(blocks({256, 256}, 1, 4), blocks({256, 256}, 4, 1)).size() == 4);
}

TEST_CASE("Very thin pieces of both factors are merged")
{
  const auto found = tiles(blocks({8, 160}, 1, 10), blocks({160, 8}, 10, 1));
  REQUIRE(found.size() == 2);
  CHECK(depths(found[0].a) == Depths(8, 16));
  CHECK(depths(found[0].b) == Depths(8, 16));
  CHECK(found[1].size.k == 32);
}

TEST_CASE("Pieces of different places in the result are not merged")
{
  for (const auto& t : tiles(blocks({512, 64}, 2, 1), blocks({64, 8}, 1, 2)))
  {
    CHECK(t.first);
    CHECK(t.size.k == 64);
    CHECK(depths(t.a) == Depths{64});
  }
}
