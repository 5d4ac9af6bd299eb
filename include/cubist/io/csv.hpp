// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Tables of numbers as text: a line for each row, with the same number of values.
//
//   5.1,3.5,-1e-3
//   4.9, 3.0, 2
//
// Every line ends with a newline, so truncation is detected. "nan" and "inf", which usually mark
// missing values, are refused.

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "cubist/core/block.hpp"
#include "cubist/core/error.hpp"
#include "cubist/io/quote.hpp"
#include "cubist/io/zip.hpp"

namespace cubist::CUBIST_ABI
{

/// What separates values, and whether there is a header.
struct CsvOptions
{
  char separator = ',';  ///< between values
  bool header = false;   ///< the first line names the columns, and is skipped
};

/// A table of text: rows of equally many values.
struct CsvTable
{
  std::size_t rows = 0;
  std::size_t cols = 0;
  std::vector<double> values;  ///< row by row
};

namespace detail
{

/// Removes and returns the text before the first `end`, or all of it, and removes that `end`.
[[nodiscard]] inline std::string_view take_until(std::string_view& text, char end)
{
  const auto size = text.find(end);
  const auto taken = text.substr(0, size);
  text.remove_prefix(size == text.npos ? text.size() : size + 1);
  return taken;
}

[[nodiscard]] inline std::string_view trim(std::string_view text)
{
  const auto first = text.find_first_not_of(' ');
  return first == text.npos ? "" : text.substr(first, text.find_last_not_of(' ') + 1 - first);
}

/// `text` as a finite number, or NaN.
[[nodiscard]] inline double parse_finite(std::string_view text)
{
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  return error == std::errc{} && at == end && std::isfinite(number) ? number : NAN;
}

/// A line of a table, without its end.
struct CsvLine
{
  std::string_view text;
  std::size_t number;  // from 1
  const std::string& file;
  char separator;

  /// Its name, for messages.
  [[nodiscard]] std::string where() const
  {
    return "got " + file + ", whose line " + std::to_string(number);
  }

  /// Calls f(value) for values [first, last), or those of them that it has. Returns the number of
  /// values before `last`.
  /// @throws DataError for one that is no finite number
  template <class F>
  std::size_t parse(std::size_t first, std::size_t last, F f) const
  {
    std::string_view rest = text;
    std::size_t count = 0;
    for (bool more = true; more && count < last; ++count)
    {
      more = rest.find(separator) != rest.npos;
      const auto value = trim(take_until(rest, separator));
      if (count < first) continue;
      const double x = parse_finite(value);
      if (std::isnan(x))
        throw DataError{where() + ", value " + std::to_string(count + 1) + ", is " +
                        quote(value, 20) +
                        ", which is no finite number, so nothing can be computed with it; write "
                        "one, as -1.5e3, or " +
                        (number == 1 ? "skip a header by .header = true" : "leave the line out")};
      f(x);
    }
    return count;
  }
};

/// Removes and returns the text of the first line.
[[nodiscard]] inline std::string_view take_line(std::string_view& text)
{
  std::string_view line = take_until(text, '\n');
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

/// Calls row(offset of its line) and then value(x) for each value of each row of a table, and
/// returns the table's shape.
/// @throws DataError as parse_csv
template <class Row, class Value>
Shape parse_csv_rows(std::string_view text, const std::string& file, const CsvOptions& options,
                     Row row, Value value)
{
  require_no_zip(text, file, "a table of text; unpack it, or save the table as text");
  Shape shape;
  CsvLine line{{}, 0, file, options.separator};
  if (!text.empty() && !text.ends_with('\n'))
  {
    line.number = 1 + static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
    throw DataError{line.where() +
                    " has no end, so the file is truncated; take a fresh copy of it, or end the "
                    "line"};
  }
  for (std::string_view rest = text; !rest.empty();)
  {
    const std::size_t offset = text.size() - rest.size();
    line.text = take_line(rest);
    if (++line.number == 1 && options.header) continue;
    row(offset);
    const std::size_t count = line.parse(0, line.text.npos, value);
    if (shape.rows++ == 0) shape.cols = count;
    if (count != shape.cols)
      throw DataError{line.where() + " has " + std::to_string(count) +
                      " values where the lines before it have " + std::to_string(shape.cols) +
                      ", so their columns are unclear; make the lines equally long"};
  }
  return shape;
}

}  // namespace detail

/// @param text the whole file
/// @param file its name, for messages
/// @throws DataError, naming line and value, for a value that is no finite number, lines of
/// different lengths, or a last line without a newline
[[nodiscard]] inline CsvTable parse_csv(std::string_view text, const std::string& file,
                                        const CsvOptions& options = {})
{
  CsvTable table;
  const Shape shape = detail::parse_csv_rows(
      text, file, options, [](std::size_t) {}, [&](double x) { table.values.push_back(x); });
  table.rows = shape.rows;
  table.cols = shape.cols;
  return table;
}

/// @throws DataError for a file that cannot be read, and what `parse_csv` throws
[[nodiscard]] inline CsvTable read_csv(const std::string& path, const CsvOptions& options = {})
{
  std::ifstream file{path, std::ios::binary};
  std::string text;
  std::array<char, 1 << 16> piece;
  while (file.read(piece.data(), piece.size()) || file.gcount() > 0)
    text.append(piece.data(), static_cast<std::size_t>(file.gcount()));
  require<DataError>(file.eof() && !file.bad(), "cannot read ", path,
                     ", so there are no numbers to compute with; give the path of a CSV file");
  return parse_csv(text, path, options);
}

}  // namespace cubist::CUBIST_ABI
