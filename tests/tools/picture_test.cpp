// SPDX-License-Identifier: BSD-3-Clause
#include <set>

#include "cubist/scheme/catalogue.hpp"

#include "picture.hpp"
#include "ranks.hpp"

namespace cubist::test::tools_picture_test
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

TEST_CASE("A picture has every rank once, where its layout puts it")
{
  for_each_scheme([]<class S>() {
    using Next = typename S::Next;
    typename S::Axes::Array extents{};
    extents.fill(2);
    const auto picture =
        picture_of<S>(extents, {{.m = 37, .n = 23, .k = 101}, {.m = 37, .n = 19, .k = 23}});
    check<S, typename S::Input>(picture.activations[0], extents, {37, 101});
    check<S, typename S::Weight>(picture.weights[0], extents, {101, 23});
    check<S, typename S::Output>(picture.activations[1], extents, {37, 23});
    check<Next, typename Next::Weight>(picture.weights[1], extents, {23, 19});
    check<Next, typename Next::Output>(picture.activations[2], extents, {37, 19});
  });
}

TEST_CASE("A picture says what it shows")
{
  const auto picture = picture_of<Summa25D>({2, 2, 2}, {{.m = 15, .n = 256, .k = 64}});
  CHECK(picture.title == "Summa25D on depth 2 x row 2 x col 2: 8 ranks");
  const CutPicture& x = picture.activations.front();
  const CutPicture& w = picture.weights.front();
  CHECK(x.title() == "X (15, 64)");
  CHECK(x.legend() == "rows [depth row] cols [col], padded to (16, 64)");
  CHECK(w.legend() == "rows [row] cols [col]");
  CHECK(w.at(0, 1) == std::vector{1, 5});
  CHECK(picture_of<Grid2D>({1, 1}, {ProductSize{1, 1, 1}}).title == "Grid2D on x 1 x y 1: 1 rank");
}

TEST_CASE("A network's matrices stand in the order in which it computes them")
{
  const auto picture =
      picture_of<Megatron1D>({2}, {{.m = 4, .n = 8, .k = 6}, {.m = 4, .n = 2, .k = 8}});
  std::string titles;
  for (const CutPicture* matrix : picture.matrices()) titles += matrix->title() + "; ";
  CHECK(titles == "X (4, 6); W1 (6, 8); H1 (4, 8); W2 (8, 2); Y (4, 2); ");
  CHECK(picture.longest_side() == 8);
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

TEST_CASE("What cannot be drawn is refused")
{
  CHECK(mentions(message_of<ShapeError>([] {
                   (void)picture_of<Grid2D>({2, 2}, {ProductSize{4, 0, 4}});
                 }),
                 "n = 0"));
  CHECK(mentions(message_of<MeshError>([] {
                   (void)picture_of<Cube3D>({2, 2, 1}, {ProductSize{4, 4, 4}});
                 }),
                 "Cube3D", "use the nearest,"));
}

}  // namespace cubist::test::tools_picture_test
