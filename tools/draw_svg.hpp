// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Draws as SVG which rank holds which block of the matrices of a product: W above Y, and X to its
// left. In a chain of products each stands to the right of the one before. Blocks are drawn in
// proportion, but no smaller than their labels, with one colour for each rank or group of replicas.
// A dashed line separates the padding. The file needs no scripts, styles or fonts, and is readable
// on light and on dark backgrounds.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <ostream>
#include <sstream>
#include <string>
#include <vector>

#include "cubist/core/block.hpp"

#include "picture.hpp"

namespace cubist
{

namespace detail
{

/// The area of a matrix in the drawing, in points.
struct Area
{
  double left;
  double top;
  double wide;
  double high;
};

inline void svg_block(std::ostream& out, const CutPicture& matrix, std::size_t row, std::size_t col,
                      const Area& at)
{
  const auto& ranks = matrix.at(row, col);
  const double w = at.wide / double(matrix.col_parts);
  const double h = at.high / double(matrix.row_parts);
  const double x = at.left + w * double(col);
  const double y = at.top + h * double(row);
  out << "  <g><title>" << matrix.name << ", block (" << row << ", " << col << "):";
  for (const int rank : ranks) out << ' ' << rank;
  out << "</title><rect x=\"" << x << "\" y=\"" << y << "\" width=\"" << w << "\" height=\"" << h
      << "\" fill=\"rgb(";
  const auto rgb = colour(ranks);
  for (std::size_t i = 0; i < 3; ++i) out << (i > 0 ? "," : "") << std::lround(255 * rgb[i]);
  out << ")\" stroke=\"#57606a\"/><text x=\"" << x + w / 2 << "\" y=\"" << y + h / 2
      << "\" fill=\"#1f2328\" text-anchor=\"middle\" dy=\"0.35em\">" << label(ranks, "…")
      << "</text></g>\n";
}

inline void svg_matrix(std::ostream& out, const CutPicture& matrix, const Area& at)
{
  for (std::size_t row = 0; row < matrix.row_parts; ++row)
    for (std::size_t col = 0; col < matrix.col_parts; ++col) svg_block(out, matrix, row, col, at);
  // The padding begins at this line.
  const double w = at.wide * double(matrix.shape.cols) / double(matrix.padded.cols);
  const double h = at.high * double(matrix.shape.rows) / double(matrix.padded.rows);
  if (matrix.shape != matrix.padded)
    out << "  <path d=\"M" << at.left << ' ' << at.top + h << "h" << w << "v" << -h
        << "\" fill=\"none\" stroke=\"#57606a\" stroke-dasharray=\"3 2\"/>\n";
}

}  // namespace detail

[[nodiscard]] inline std::string draw_svg(const Picture& picture)
{
  constexpr double longest_side = 260;
  constexpr double letter = 7.5;
  constexpr double line = 20;
  constexpr double gap = 36;
  const auto& activations = picture.activations;
  const auto& weights = picture.weights;
  const double scale = longest_side / double(picture.longest_side());
  const auto wide = [&](const CutPicture& m) {
    std::size_t widest = 1;
    for (const auto& ranks : m.ranks) widest = std::max(widest, label(ranks, ".").size());
    return std::max(scale * double(m.padded.cols),
                    double(m.col_parts) * (letter * double(widest) + 8));
  };
  const auto high = [&](const CutPicture& m) {
    return std::max(scale * double(m.padded.rows), double(m.row_parts) * line);
  };
  double k = 0;  // the height of the highest weight
  for (const CutPicture& w : weights) k = std::max(k, high(w));
  double m = 0;
  for (const CutPicture& a : activations) m = std::max(m, high(a));
  const double left = gap / 2;
  const double top = 2 * line + gap / 2;
  const double below = top + k + gap;
  std::vector<detail::Area> areas{{left, below, wide(activations.front()), m}};
  for (std::size_t i = 0; i < weights.size(); ++i)
    areas.push_back({areas.back().left + areas.back().wide + gap, below,
                     std::max(wide(weights[i]), wide(activations[i + 1])), m});
  std::size_t letters = picture.title.size();
  for (const CutPicture* matrix : picture.matrices())
    letters = std::max(letters, matrix->title().size() + matrix->legend().size() + 2);
  const double width =
      std::max(areas.back().left + areas.back().wide, left + letter * double(letters)) + gap / 2;
  const double height = below + m + line * double(1 + picture.matrices().size());

  std::ostringstream out;
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << width << ' ' << height
      << "\" width=\"" << width << "\" height=\"" << height
      << "\" font-family=\"sans-serif\" font-size=\"13\">\n";
  // This grey is readable on white and on black.
  const auto text = [&](double at_x, double at_y, const std::string& what) {
    out << "  <text x=\"" << at_x << "\" y=\"" << at_y << "\" fill=\"#768390\">" << what
        << "</text>\n";
  };
  text(left, line, picture.title);
  const auto draw = [&](const CutPicture& drawn, const detail::Area& area) {
    text(area.left, area.top - 6, drawn.name);
    detail::svg_matrix(out, drawn, area);
  };
  for (std::size_t i = 0; i < weights.size(); ++i)
  {
    const double h = high(weights[i]);
    draw(weights[i], {areas[i + 1].left, below - gap - h, areas[i + 1].wide, h});
  }
  for (std::size_t i = 0; i < activations.size(); ++i) draw(activations[i], areas[i]);
  double at = below + m + 1.4 * line;
  for (const CutPicture* matrix : picture.matrices())
  {
    text(left, at, matrix->title() + "  " + matrix->legend());
    at += line;
  }
  out << "</svg>\n";
  return out.str();
}

/// Draws a layer on a scheme and mesh.
/// @throws what `picture_of` throws
template <SchemeType S>
[[nodiscard]] std::string draw_svg(const typename S::Axes::Array& extents, ProductSize size)
{
  return draw_svg(picture_of<S>(extents, {size}));
}

}  // namespace cubist
