// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <set>
#include <vector>

#include "cubist/scheme/catalogue.hpp"

#include "catch.hpp"
#include "picture.hpp"
#include "ranks.hpp"

namespace tools_picture_test
{

using namespace cubist;
using namespace cubist::test;

namespace
{

/// Whether each rank is where its layout puts it, and nowhere else.
template <class S, class L>
void check(const CutPicture& picture, const typename S::Axes::Array& extents, Shape shape)
{
  CAPTURE(S::name, picture.title());
  const int ranks = S::Axes::ranks(extents);
  std::vector<int> seen;
  for (std::size_t row = 0; row < picture.row_parts; ++row)
    for (std::size_t col = 0; col < picture.col_parts; ++col)
      for (const int rank : picture.at(row, col))
      {
        seen.push_back(rank);
        const auto block = L::template block<typename S::Axes>(
            shape, extents, S::Axes::coordinates(rank, extents), S::quantum(extents));
        CHECK(block.padded() == Shape{picture.padded.rows / picture.row_parts,
                                      picture.padded.cols / picture.col_parts});
        CHECK(block.rows.offset == std::min(shape.rows, row * block.rows.size));
        CHECK(block.cols.offset == std::min(shape.cols, col * block.cols.size));
      }
  std::sort(seen.begin(), seen.end());
  std::vector<int> all(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) all[static_cast<std::size_t>(rank)] = rank;
  CHECK(seen == all);
}

}  // namespace

TEST_CASE("A picture has every rank once, where its layout puts it")
{
  for_each_scheme([]<class S>() {
    typename S::Axes::Array extents{};
    extents.fill(2);
    const ProductSize size{.m = 37, .n = 23, .k = 101};
    const auto picture = picture_of<S>(extents, size);
    check<S, typename S::Input>(picture.x, extents, {size.m, size.k});
    check<S, typename S::Weight>(picture.w, extents, {size.k, size.n});
    check<S, typename S::Output>(picture.y, extents, {size.m, size.n});
  });
}

TEST_CASE("A picture says what it shows")
{
  const auto picture = picture_of<Summa25D>({2, 2, 2}, {.m = 15, .n = 256, .k = 64});
  CHECK(picture.title == "Summa25D on depth 2 x row 2 x col 2: 8 ranks");
  CHECK(picture.x.title() == "X (15, 64)");
  CHECK(picture.x.legend() == "rows [depth row] cols [col], padded to (16, 64)");
  CHECK(picture.w.legend() == "rows [row] cols [col]");
  CHECK(picture.w.at(0, 1) == std::vector{1, 5});
  CHECK(picture_of<Grid2D>({1, 1}, {1, 1, 1}).title == "Grid2D on x 1 x y 1: 1 rank");
}

TEST_CASE("Labels are short")
{
  CHECK(label({5}, "..") == "5");
  CHECK(label({0, 4, 8}, "..") == "0 4 8");
  CHECK(label({0, 4, 8, 12}, "..") == "0 4 8 12");
  CHECK(label({2, 3, 4, 5}, "..") == "2-5");
  CHECK(label({0, 4, 8, 12, 60}, "..") == "0 4 .. 60");
  CHECK(label({}, "..").empty());
}

TEST_CASE("Colours are light, and those of the first ranks differ")
{
  std::set<std::array<double, 3>> colours;
  for (int rank = 0; rank < 64; ++rank)
  {
    const auto rgb = colour({rank, rank + 64});
    for (const double c : rgb) CHECK((c >= 0.6 && c <= 1));
    colours.insert(rgb);
  }
  CHECK(colours.size() == 64);
}

TEST_CASE("What can't be drawn is refused")
{
  CHECK(mentions(message_of<ShapeError>([] {
                   (void)picture_of<Grid2D>({2, 2}, {4, 0, 4});
                 }),
                 "n = 0"));
  CHECK(mentions(message_of<MeshError>([] {
                   (void)picture_of<Cube3D>({2, 2, 1}, {4, 4, 4});
                 }),
                 "Cube3D", "use the nearest,"));
}

}  // namespace tools_picture_test
