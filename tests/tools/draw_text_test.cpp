// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/scheme/grid3d.hpp"
#include "cubist/scheme/megatron1d.hpp"
#include "cubist/scheme/summa25d.hpp"

#include "draw_text.hpp"
#include "ranks.hpp"

namespace cubist::test::tools_draw_text_test
{

TEST_CASE("A cut is drawn in proportion, block by block")
{
  CHECK(draw_text<Summa25D>({2, 2, 2}, {.m = 15, .n = 16, .k = 4}, false) ==
        R"(Summa25D on depth 2 x row 2 x col 2: 8 ranks

X (15, 4)  rows [depth row] cols [col], padded to (16, 4)
┌───┬───┐
│   │   │
│ 0 │ 1 │
│   │   │
├───┼───┤
│   │   │
│ 2 │ 3 │
│   │   │
├───┼───┤
│   │   │
│ 4 │ 5 │
│   │   │
├───┼───┤
│   │   │
│ 6 │ 7 │
│   │   │
└───┴───┘

W (4, 16)  rows [row] cols [col]
┌────────────┬────────────┐
│    0 4     │    1 5     │
│            │            │
├────────────┼────────────┤
│    2 6     │    3 7     │
│            │            │
└────────────┴────────────┘

Y (15, 16)  rows [depth row] cols [col], padded to (16, 16)
┌────────────┬────────────┐
│            │            │
│     0      │     1      │
│            │            │
├────────────┼────────────┤
│            │            │
│     2      │     3      │
│            │            │
├────────────┼────────────┤
│            │            │
│     4      │     5      │
│            │            │
├────────────┼────────────┤
│            │            │
│     6      │     7      │
│            │            │
└────────────┴────────────┘
)");
}

TEST_CASE("Every block is drawn once")
{
  auto text = draw_text<Grid3D>({2, 3, 2}, {36, 36, 36}, false);
  text.erase(0, text.find('\n'));  // the title, which has the extents
  for (int rank = 0; rank < 12; ++rank)
    CHECK(count_in(text, std::string{' '} + std::to_string(rank) + ' ') == 3);
}

TEST_CASE("A terminal gets a colour a block, and the same for the same ranks")
{
  const auto plain = draw_text<Megatron1D>({2}, {4, 4, 4}, false);
  const auto coloured = draw_text<Megatron1D>({2}, {4, 4, 4}, true);
  CHECK(count_in(plain, "\x1b") == 0);
  CHECK(count_in(coloured, "\x1b[0m") == count_in(coloured, "\x1b[30;48;5;"));
  const auto first = cubist::detail::painted(" 0 ", {0});
  CHECK(cubist::detail::painted(" 0 ", {0, 4}) == first);
  CHECK(cubist::detail::painted(" 0 ", {1}) != first);
}

TEST_CASE("Of many blocks in a row, only the outermost are drawn")
{
  const auto text = draw_text<Megatron1D>({64}, {64, 64, 64}, false);
  CHECK(mentions(text, " 0-63 ", " 5  │ … │ 58 ", " 63 "));
  CHECK_FALSE(mentions(text, " 6 "));
  CHECK_FALSE(mentions(text, " 57 "));
}

}  // namespace cubist::test::tools_draw_text_test
