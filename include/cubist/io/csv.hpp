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

#include "cubist/core/error.hpp"
#include "cubist/io/quote.hpp"
#include "cubist/io/zip.hpp"

namespace cubist
{

struct CsvOptions
{
  char separator = ',';
  bool header = false;  ///< the first line names the columns, and is skipped
};

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

}  // namespace detail

/// @param text the whole file
/// @param file its name, for messages
/// @throws DataError, naming line and value, for a value that is no finite number, lines of
/// different lengths, or a last line without a newline
[[nodiscard]] inline CsvTable parse_csv(std::string_view text, const std::string& file,
                                        const CsvOptions& options = {})
{
  require_no_zip(text, file, "a table of text; unpack it, or save the table as text");
  CsvTable table;
  std::size_t number = 0;
  const auto where = [&] { return "got " + file + ", whose line " + std::to_string(number); };
  if (!text.empty() && !text.ends_with('\n'))
  {
    number = 1 + static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
    throw DataError{where() + " has no end, so the file is truncated; take a fresh copy of it, or "
                              "end the line"};
  }
  while (!text.empty())
  {
    std::string_view line = detail::take_until(text, '\n');
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (++number == 1 && options.header) continue;

    std::size_t count = 0;
    for (bool more = true; more; ++count)
    {
      more = line.find(options.separator) != line.npos;
      const auto value = detail::trim(detail::take_until(line, options.separator));
      table.values.push_back(detail::parse_finite(value));
      if (std::isnan(table.values.back()))
        throw DataError{where() + ", value " + std::to_string(count + 1) + ", is " +
                        quote(value, 20) +
                        ", which is no finite number, so nothing can be computed with it; write "
                        "one, as -1.5e3, or leave the line out"};
    }
    if (table.rows++ == 0) table.cols = count;
    if (count != table.cols)
      throw DataError{where() + " has " + std::to_string(count) +
                      " values where the lines before it have " + std::to_string(table.cols) +
                      ", so their columns are unclear; make the lines equally long"};
  }
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

}  // namespace cubist
