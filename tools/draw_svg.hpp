// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Draws which rank holds which block of X, W and Y, as SVG: W above Y, and X to its left. Blocks
// are drawn in proportion, but no smaller than their labels, in one colour for each rank or group
// of replicas; padding is behind a dashed line. The file needs no scripts, styles or fonts, and is
// readable on light and on dark backgrounds.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <ostream>
#include <sstream>
#include <string>

#include "cubist/core/block.hpp"

#include "picture.hpp"

namespace cubist
{

namespace detail
{

/// The area of a matrix, in points.
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
  // Padding is behind this line.
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
  const auto& [title, x, w, y] = picture;
  const double scale =
      longest_side / double(std::max({x.padded.rows, x.padded.cols, w.padded.cols, w.padded.rows}));
  const auto wide = [&](const CutPicture& m) {
    std::size_t widest = 1;
    for (const auto& ranks : m.ranks) widest = std::max(widest, label(ranks, ".").size());
    return std::max(scale * double(m.padded.cols),
                    double(m.col_parts) * (letter * double(widest) + 8));
  };
  const auto high = [&](const CutPicture& m) {
    return std::max(scale * double(m.padded.rows), double(m.row_parts) * line);
  };
  const double k_wide = wide(x);
  const double k_high = high(w);
  const double n = std::max(wide(w), wide(y));
  const double m = std::max(high(x), high(y));
  const double left = gap / 2;
  const double right = left + k_wide + gap;
  const double top = 2 * line + gap / 2;
  const double below = top + k_high + gap;
  const double text_width =
      letter * double(std::max({title.size(), x.title().size() + x.legend().size() + 2,
                                w.title().size() + w.legend().size() + 2,
                                y.title().size() + y.legend().size() + 2}));
  const double width = std::max(right + n, left + text_width) + gap / 2;
  const double height = below + m + 4 * line;

  std::ostringstream out;
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << width << ' ' << height
      << "\" width=\"" << width << "\" height=\"" << height
      << "\" font-family=\"sans-serif\" font-size=\"13\">\n";
  // A grey that is readable on white and on black.
  const auto text = [&](double at_x, double at_y, const std::string& what) {
    out << "  <text x=\"" << at_x << "\" y=\"" << at_y << "\" fill=\"#768390\">" << what
        << "</text>\n";
  };
  text(left, line, title);
  text(right, top - 6, "W");
  text(left, below - 6, "X");
  text(right, below - 6, "Y");
  detail::svg_matrix(out, w, {right, top, n, k_high});
  detail::svg_matrix(out, x, {left, below, k_wide, m});
  detail::svg_matrix(out, y, {right, below, n, m});
  double at = below + m + 1.4 * line;
  for (const auto* matrix : {&x, &w, &y})
  {
    text(left, at, matrix->title() + "  " + matrix->legend());
    at += line;
  }
  out << "</svg>\n";
  return out.str();
}

/// The same for a layer on a scheme and mesh.
/// @throws what `picture_of` throws
template <SchemeType S>
[[nodiscard]] std::string draw_svg(const typename S::Axes::Array& extents, ProductSize size)
{
  return draw_svg(picture_of<S>(extents, size));
}

}  // namespace cubist
