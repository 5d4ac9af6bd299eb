// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Describes, for a drawing, which rank holds which block of the matrices of a product, or of a
// chain of products, in which each layer's output is the next one's input.
//
//   X (M, K) S::Input    W (K, N) S::Weight    Y (M, N) S::Output, which is S::Next::Input

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "cubist/core/block.hpp"
#include "cubist/plan/cutting.hpp"
#include "cubist/plan/meshes.hpp"
#include "cubist/plan/plan.hpp"

namespace cubist
{

/// A matrix in equal blocks, and the ranks that hold them.
struct CutPicture
{
  std::string name;
  std::string layout;
  Shape shape;
  Shape padded;
  std::size_t row_parts = 1;
  std::size_t col_parts = 1;
  std::vector<std::vector<int>> ranks;  // the holders of each block, row by row

  [[nodiscard]] const std::vector<int>& at(std::size_t row, std::size_t col) const
  {
    return ranks[row * col_parts + col];
  }
  /// "X (16, 256)"
  [[nodiscard]] std::string title() const
  {
    return name + " (" + std::to_string(shape.rows) + ", " + std::to_string(shape.cols) + ")";
  }
  /// Returns "rows [depth row] cols [col]", and the padded shape if it differs.
  [[nodiscard]] std::string legend() const
  {
    if (shape == padded) return layout;
    return layout + ", padded to (" + std::to_string(padded.rows) + ", " +
           std::to_string(padded.cols) + ")";
  }
};

/// The matrices of a chain of layers.
struct Picture
{
  std::string title;
  std::vector<CutPicture> activations;  // X, H1, …, Y: one more than there are weights
  std::vector<CutPicture> weights;      // W, or W1, W2, …

  /// The matrices from left to right: X, W1, H1, …, Y.
  [[nodiscard]] std::vector<const CutPicture*> matrices() const
  {
    std::vector<const CutPicture*> all{&activations.front()};
    for (std::size_t i = 0; i < weights.size(); ++i)
    {
      all.push_back(&weights[i]);
      all.push_back(&activations[i + 1]);
    }
    return all;
  }
  /// The longest side of a matrix, padding included.
  [[nodiscard]] std::size_t longest_side() const
  {
    std::size_t longest = 0;
    for (const CutPicture* m : matrices())
      longest = std::max({longest, m->padded.rows, m->padded.cols});
    return longest;
  }
};

namespace detail
{

[[nodiscard]] inline CutPicture cut_picture(const std::string& name, const std::string& layout,
                                            Shape shape, const CutMatrix& matrix, int ranks)
{
  const auto index = [](int rank, const AxisTuple& axes) {
    std::size_t i = 0;
    for (const auto& axis : axes)
      i = i * std::size_t(axis.extent) + std::size_t(rank / axis.stride % axis.extent);
    return i;
  };
  CutPicture picture{name, layout, shape, {}, matrix.rows.parts(), matrix.cols.parts(), {}};
  picture.padded = {matrix.block.rows * picture.row_parts, matrix.block.cols * picture.col_parts};
  picture.ranks.resize(picture.row_parts * picture.col_parts);
  for (int rank = 0; rank < ranks; ++rank)
    picture.ranks[index(rank, matrix.rows) * picture.col_parts + index(rank, matrix.cols)]
        .push_back(rank);
  return picture;
}

/// Appends layer i of n on scheme S to a picture.
template <SchemeType S>
void add_layer(Picture& picture, const typename S::Axes::Array& extents, ProductSize size,
               std::size_t i, std::size_t n)
{
  const auto p = cut_product<S>(extents, size);
  const int ranks = S::Axes::ranks(extents);
  const std::string number = std::to_string(i + 1);
  if (i == 0)
    picture.activations.push_back(
        cut_picture("X", S::Input::to_string(), {size.m, size.k}, p.x, ranks));
  picture.weights.push_back(cut_picture(n == 1 ? "W" : "W" + number, S::Weight::to_string(),
                                        {size.k, size.n}, p.w, ranks));
  picture.activations.push_back(cut_picture(i + 1 == n ? "Y" : "H" + number, S::Output::to_string(),
                                            {size.m, size.n}, p.y, ranks));
}

}  // namespace detail

/// Describes the matrices of a chain of layers, alternately on S and S::Next.
/// @throws ShapeError for a size of 0, MeshError for extents that the scheme cannot have
template <SchemeType S>
[[nodiscard]] Picture picture_of(const typename S::Axes::Array& extents,
                                 const std::vector<ProductSize>& layers)
{
  require_valid(layers);
  require_fit<S>(extents);
  const int ranks = S::Axes::ranks(extents);
  Picture picture{std::string{S::name} + " on " + S::Axes::to_string(extents) + ": " +
                      std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks"),
                  {},
                  {}};
  const std::size_t n = layers.size();
  for (std::size_t i = 0; i < n; ++i)
    if (i % 2 == 0)
      detail::add_layer<S>(picture, extents, layers[i], i, n);
    else
      detail::add_layer<typename S::Next>(picture, extents, layers[i], i, n);
  return picture;
}

/// Returns the ranks of a block as a short text: "5", "0 4", "0-63", "0 4 .. 60".
/// @param dots stand for the ranks in between
[[nodiscard]] inline std::string label(const std::vector<int>& ranks, const std::string& dots)
{
  std::string s;
  const auto add = [&](const std::string& before, std::size_t i) {
    s += before;
    s += std::to_string(ranks[i]);
  };
  const std::size_t n = ranks.size();
  const bool in_a_row = n > 3 && ranks[n - 1] - ranks[0] == static_cast<int>(n) - 1;
  if (n <= 4 && !in_a_row)
    for (std::size_t i = 0; i < n; ++i) add(i > 0 ? " " : "", i);
  else
  {
    add("", 0);
    if (!in_a_row) add(" ", 1);
    add(in_a_row ? "-" : ' ' + dots + ' ', n - 1);
  }
  return s;
}

/// Returns a light colour for a block, by the first of its ranks: red, green and blue from 0 to 1.
/// Neighbours have different colours, on which black text is readable.
[[nodiscard]] inline std::array<double, 3> colour(const std::vector<int>& ranks)
{
  const double golden = 0.618033988749895;
  const double hue = 6 * std::fmod(0.58 + golden * (ranks.empty() ? 0 : ranks.front()), 1.0);
  const double chroma = 0.30;
  const double lowest = 0.68;
  const auto channel = [&](double offset) {
    const double k = std::fmod(hue + offset, 6.0);
    return lowest + chroma * (1 - std::clamp(std::min(k, 4 - k), 0.0, 1.0));
  };
  return {channel(5), channel(3), channel(1)};
}

}  // namespace cubist
