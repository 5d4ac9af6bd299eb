// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Draws which rank holds which block of each matrix, as text for a terminal. Blocks are drawn in
// proportion, but no smaller than their labels, with one colour for each rank or group of replicas.
// The label of a block that several ranks hold names all of them: "0 4". If a row has many blocks,
// only the outermost are drawn.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "cubist/core/block.hpp"

#include "picture.hpp"

namespace cubist
{

namespace detail
{

/// Returns the width of a text in a terminal: its bytes in UTF-8 without continuation bytes.
[[nodiscard]] inline std::size_t width(const std::string& text)
{
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }));
}

[[nodiscard]] inline std::string repeated(const std::string& text, std::size_t times)
{
  std::string s;
  for (std::size_t i = 0; i < times; ++i) s += text;
  return s;
}

[[nodiscard]] inline std::string centred(const std::string& text, std::size_t columns)
{
  const std::size_t before = (columns - width(text)) / 2;
  return std::string(before, ' ') + text + std::string(columns - before - width(text), ' ');
}

/// Returns the pieces of a dimension that are drawn: all of them, or the outermost ones, with
/// `parts` in place of the others.
[[nodiscard]] inline std::vector<std::size_t> shown(std::size_t parts)
{
  constexpr std::size_t most = 16;
  constexpr std::size_t outermost = 6;
  std::vector<std::size_t> pieces;
  for (std::size_t i = 0; i < parts; ++i)
    if (parts <= most || i < outermost || i >= parts - outermost)
      pieces.push_back(i);
    else if (i == outermost)
      pieces.push_back(parts);
  return pieces;
}

/// Returns black text on the nearest of a terminal's 216 colours.
[[nodiscard]] inline std::string painted(const std::string& text, const std::vector<int>& ranks)
{
  int index = 16;
  int weight = 36;
  for (const double c : colour(ranks))
  {
    index += weight * static_cast<int>(std::lround(5 * c));
    weight /= 6;
  }
  return std::string{"\x1b[30;48;5;"} + std::to_string(index) + "m" + text + "\x1b[0m";
}

/// @param lines_per_element the scale; a line is as high as two columns are wide
[[nodiscard]] inline std::string text_of(const CutPicture& matrix, double lines_per_element,
                                         bool colours)
{
  const std::string dots = "…";
  const auto rows = shown(matrix.row_parts);
  const auto cols = shown(matrix.col_parts);
  const auto size = [&](std::size_t elements, std::size_t parts, double scale, std::size_t least) {
    return std::max(
        least, static_cast<std::size_t>(std::lround(scale * double(elements) / double(parts))));
  };
  const auto text_at = [&](std::size_t row, std::size_t col) {
    const bool left_out = row == matrix.row_parts || col == matrix.col_parts;
    return left_out ? dots : label(matrix.at(row, col), dots);
  };
  std::size_t widest = 1;
  for (const auto r : rows)
    for (const auto c : cols) widest = std::max(widest, width(text_at(r, c)));
  const std::size_t columns =
      size(matrix.padded.cols, matrix.col_parts, 2 * lines_per_element, widest + 2);
  const std::size_t lines = size(matrix.padded.rows, matrix.row_parts, lines_per_element, 1);
  const auto wide = [&](std::size_t col) { return col == matrix.col_parts ? 3 : columns; };

  const auto border = [&](const char* left, const char* middle, const char* right) {
    std::string s = left;
    for (std::size_t i = 0; i < cols.size(); ++i)
      s += (i > 0 ? middle : "") + repeated("─", wide(cols[i]));
    return s + right + "\n";
  };
  std::string s = matrix.title() + "  " + matrix.legend() + "\n";
  for (std::size_t i = 0; i < rows.size(); ++i)
  {
    const bool left_out = rows[i] == matrix.row_parts;
    s += i == 0 ? border("┌", "┬", "┐") : border("├", "┼", "┤");
    for (std::size_t line = 0; line < (left_out ? 1 : lines); ++line)
    {
      for (const auto col : cols)
      {
        const bool labelled = left_out || line == (lines - 1) / 2;
        const auto cell = centred(labelled ? text_at(rows[i], col) : "", wide(col));
        const bool coloured = colours && !left_out && col != matrix.col_parts;
        s += "│";
        s += coloured ? painted(cell, matrix.at(rows[i], col)) : cell;
      }
      s += "│\n";
    }
  }
  return s + border("└", "┴", "┘");
}

}  // namespace detail

/// Draws the three matrices.
/// @param colours whether the terminal shows colours
[[nodiscard]] inline std::string draw_text(const Picture& picture, bool colours)
{
  constexpr double lines = 12;
  std::string s = picture.title + "\n";
  for (const CutPicture* matrix : picture.matrices())
  {
    s += "\n";
    s += detail::text_of(*matrix, lines / double(picture.longest_side()), colours);
  }
  return s;
}

/// Draws a layer on a scheme and mesh.
/// @throws what `picture_of` throws
template <SchemeType S>
[[nodiscard]] std::string draw_text(const typename S::Axes::Array& extents, ProductSize size,
                                    bool colours)
{
  return draw_text(picture_of<S>(extents, {size}), colours);
}

}  // namespace cubist
