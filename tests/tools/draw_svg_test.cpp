// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/scheme/grid3d.hpp"
#include "cubist/scheme/summa25d.hpp"

#include "draw_svg.hpp"
#include "ranks.hpp"

namespace cubist::test::tools_draw_svg_test
{

static std::string label_of(int rank)
{
  return std::string{">"} + std::to_string(rank) + "</text>";
}

TEST_CASE("Every block is one labelled rectangle")
{
  const auto svg = draw_svg<Grid3D>({2, 3, 2}, {36, 36, 36});
  CHECK(count_in(svg, "<rect ") == 3 * 12);
  for (int rank = 0; rank < 12; ++rank) CHECK(count_in(svg, label_of(rank)) == 3);
}

TEST_CASE("Replicas share a rectangle, and the legend has the layouts")
{
  const auto svg = draw_svg<Summa25D>({2, 2, 2}, {.m = 16, .n = 64, .k = 32});
  CHECK(count_in(svg, "<rect ") == 8 + 4 + 8);
  CHECK(mentions(svg, ">0 4</text>", ">3 7</text>", "<title>W, block (1, 0): 2 6</title>",
                 ">Summa25D on depth 2 x row 2 x col 2: 8 ranks</text>",
                 ">X (16, 32)  rows [depth row] cols [col]</text>",
                 ">W (32, 64)  rows [row] cols [col]</text>"));
}

TEST_CASE("The weights of a network stand above the matrices that they make")
{
  const auto svg = draw_svg(
      picture_of<Summa25D>({2, 2, 2}, {{.m = 16, .n = 64, .k = 32}, {.m = 16, .n = 32, .k = 64}}));
  CHECK(count_in(svg, "<rect ") == 8 + 4 + 8 + 4 + 8);
  for (const std::string name : {"X", "W1", "H1", "W2", "Y"})
    CHECK(count_in(svg, ">" + name + "</text>") == 1);
}

TEST_CASE("Padding lies behind a dashed line")
{
  CHECK(count_in(draw_svg<Summa25D>({1, 2, 2}, {4, 4, 4}), "stroke-dasharray") == 0);
  CHECK(count_in(draw_svg<Summa25D>({1, 2, 2}, {3, 4, 4}), "stroke-dasharray") == 2);
}

TEST_CASE("The file stands alone: every element is closed, nothing is loaded or run")
{
  const auto svg = draw_svg<Grid3D>({1, 2, 3}, {37, 23, 101});
  CHECK(svg.find("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ") == 0);
  CHECK(svg.substr(svg.size() - 7) == "</svg>\n");
  for (const std::string element : {"svg", "g", "title", "text"})
    CHECK(count_in(svg, "<" + element + " ") + count_in(svg, "<" + element + ">") ==
          count_in(svg, "</" + element + ">"));
  for (const char* foreign : {"<script", "href", "url(", "<style", "nan", "inf"})
    CHECK(count_in(svg, foreign) == 0);
}

}  // namespace cubist::test::tools_draw_svg_test
