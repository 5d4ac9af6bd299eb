// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/core/block.hpp"

#include "catch.hpp"

namespace cubist::test::core_block_test
{

TEST_CASE("a shape has a size and is printed")
{
  STATIC_REQUIRE(Shape{3, 4}.size() == 12);
  STATIC_REQUIRE(Shape{3, 0}.size() == 0);
  STATIC_REQUIRE(Shape{3, 4} == Shape{3, 4});
  STATIC_REQUIRE_FALSE(Shape{3, 4} == Shape{4, 3});
  std::ostringstream out;
  out << Shape{16, 256};
  CHECK(out.str() == "(16, 256)");
}

TEST_CASE("ceil_div and pad round up")
{
  STATIC_REQUIRE(ceil_div(0, 4) == 0);
  STATIC_REQUIRE(ceil_div(1, 4) == 1);
  STATIC_REQUIRE(ceil_div(4, 4) == 1);
  STATIC_REQUIRE(ceil_div(5, 4) == 2);
  STATIC_REQUIRE(ceil_div(static_cast<std::size_t>(-1), 2) == (static_cast<std::size_t>(1) << 63));

  STATIC_REQUIRE(pad(0, 4) == 0);
  STATIC_REQUIRE(pad(1, 4) == 4);
  STATIC_REQUIRE(pad(8, 4) == 8);
  STATIC_REQUIRE(pad(9, 4) == 12);
}

TEST_CASE("a dimension in blocks")
{
  CHECK(block_range(10, 12, 4, 0) == Range{0, 3, 3});
  CHECK(block_range(10, 12, 4, 2) == Range{6, 3, 3});
  CHECK(block_range(10, 12, 4, 3) == Range{9, 3, 1});
  // With fewer indices than blocks, the last blocks have only padding.
  CHECK(block_range(2, 4, 4, 1) == Range{1, 1, 1});
  CHECK(block_range(2, 4, 4, 2) == Range{2, 1, 0});
  CHECK(block_range(0, 0, 4, 3) == Range{0, 0, 0});
}

TEST_CASE("the blocks cover every index once, and only the last ones are padded")
{
  for (std::size_t n = 0; n <= 30; ++n)
    for (std::size_t parts = 1; parts <= 9; ++parts)
      for (std::size_t quantum : {parts, 2 * parts, 3 * parts})
      {
        CAPTURE(n, parts, quantum);
        const std::size_t padded = pad(n, quantum);
        std::size_t next = 0;
        for (std::size_t i = 0; i < parts; ++i)
        {
          const Range r = block_range(n, padded, parts, i);
          REQUIRE(r.offset == next);
          REQUIRE(r.size == padded / parts);
          REQUIRE(r.valid == std::min(r.size, n - next));
          next += r.valid;
        }
        REQUIRE(next == n);
      }
}

TEST_CASE("a part of a range that begins after its indices has none")
{
  CHECK(part_of_range({6, 4, 4}, 2, 0) == Range{6, 2, 2});
  CHECK(part_of_range({6, 4, 4}, 2, 1) == Range{8, 2, 2});
  CHECK(part_of_range({6, 4, 3}, 2, 1) == Range{8, 2, 1});
  CHECK(part_of_range({6, 4, 1}, 2, 1) == Range{7, 2, 0});
  CHECK(part_of_range({6, 4, 0}, 2, 1) == Range{6, 2, 0});
  // The last part is shorter, or empty.
  CHECK(part_of_range({6, 5, 5}, 3, 2) == Range{10, 1, 1});
  CHECK(part_of_range({6, 5, 4}, 4, 3) == Range{10, 0, 0});
  CHECK(part_of_range({0, 0, 0}, 3, 1) == Range{0, 0, 0});
}

TEST_CASE("the parts of a range cover it once, with and without its padding")
{
  for (std::size_t size = 0; size <= 12; ++size)
    for (std::size_t valid = 0; valid <= size; ++valid)
      for (std::size_t parts = 1; parts <= 7; ++parts)
      {
        CAPTURE(size, valid, parts);
        constexpr std::size_t first = 100;
        std::size_t padded = 0;
        std::size_t next = first;
        for (std::size_t i = 0; i < parts; ++i)
        {
          const Range r = part_of_range({first, size, valid}, parts, i);
          REQUIRE(r.offset == next);
          REQUIRE(r.size <= ceil_div(size, parts));
          REQUIRE(r.valid <= r.size);
          // Padding comes after all indices.
          REQUIRE((r.valid == r.size || r.offset + r.valid == first + valid));
          next += r.valid;
          padded += r.size;
        }
        REQUIRE(next == first + valid);
        REQUIRE(padded == size);
      }
}

TEST_CASE("a part of a block is of rows or, of a single row, of columns")
{
  CHECK(part_of_block({{6, 4, 3}, {8, 5, 4}}, 2, 1) == Block{{8, 2, 1}, {8, 5, 4}});
  CHECK(part_of_block({{6, 1, 1}, {8, 5, 4}}, 2, 1) == Block{{6, 1, 1}, {11, 2, 1}});
  CHECK(part_of_block({{6, 1, 0}, {8, 4, 1}}, 2, 1) == Block{{6, 1, 0}, {9, 2, 0}});
}

TEST_CASE("a block's sizes with and without padding")
{
  constexpr Block b{{6, 3, 2}, {8, 4, 4}};
  STATIC_REQUIRE(b.padded() == Shape{3, 4});
  STATIC_REQUIRE(b.valid() == Shape{2, 4});
  STATIC_REQUIRE_FALSE(b == Block{{6, 3, 3}, {8, 4, 4}});
}

TEST_CASE("matrices of more bytes than 64 bits can count are refused")
{
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
  constexpr std::size_t two_33 = std::size_t{1} << 33;
  for (const Shape s : {Shape{two_33, two_33}, Shape{most, 1}, Shape{1, most}, Shape{0, most},
                        Shape{most, 0}, Shape{two_33, two_33 / 8}})
    CHECK_THROWS_AS(require_countable(s, 8), ShapeError);
  for (const Shape s :
       {Shape{}, Shape{0, 5}, Shape{1, 1}, Shape{two_33, 1 << 10}, Shape{1 << 20, 1 << 20}})
    CHECK_NOTHROW(require_countable(s, 8));
  CHECK_THROWS_WITH(
      require_countable({two_33, two_33}, 4),
      "got a matrix of (8589934592, 8589934592) with 4 bytes per element, whose size in bytes does "
      "not fit in 64 bits; check its sizes for negative numbers, and for rows "
      "and columns that are swapped or multiplied");
}

}  // namespace cubist::test::core_block_test
