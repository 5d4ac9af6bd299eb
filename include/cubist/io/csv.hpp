// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Reads tables of numbers as text. Each row is a line, and all lines have the same number of
// values.
//
//   5.1,3.5,-1e-3
//   4.9, 3.0, 2
//
// The text is ASCII, or UTF-8 with or without a byte-order mark. Blank lines at its end are
// skipped, and the last line may lack its newline. So a file that was cut off inside its last value
// goes unnoticed. One that was cut off earlier in a line has too few values there.
//
// A number, with or without a sign, is read as the nearest double in every locale, so 1e-400 is 0.
// "nan" and "inf", which usually mark missing values, are refused, and so is 1e400, which NumPy and
// PyTorch would read as an infinity.

#include <array>
#include <charconv>
#include <cstddef>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <locale.h>
#include <stdlib.h>

#include "cubist/core/block.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/finite.hpp"
#include "cubist/io/other_formats.hpp"
#include "cubist/io/quote.hpp"

namespace cubist::CUBIST_ABI
{

/// How a table is written: the separator of its values, and whether it has a header.
struct CsvOptions
{
  char separator = ',';  ///< the character between values
  bool header = false;   ///< whether the first line names the columns, so that it is skipped
};

/// A table that was read from text: all rows have the same number of values.
struct CsvTable
{
  std::size_t rows = 0;
  std::size_t cols = 0;
  std::vector<double> values;  ///< row by row
};

namespace detail
{

/// Removes and returns the text before the first `end`, or all text without one; also removes that
/// `end`.
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

/// Returns the nearest double to a number that std::from_chars found to be out of range: an
/// infinity or 0.
[[nodiscard]] inline double out_of_range_number(const std::string& text)
{
  static const locale_t classic = ::newlocale(LC_ALL_MASK, "C", nullptr);
  return ::strtod_l(text.c_str(), nullptr, classic);
}

/// Parses `text` as the nearest double, which may be an infinity or a NaN. Returns nothing if it is
/// not a number.
[[nodiscard]] inline std::optional<double> parse_number(std::string_view text)
{
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  if (at != end || error == std::errc::invalid_argument) return {};
  return error == std::errc{} ? number : out_of_range_number(std::string{text});
}

/// Whether `text` begins with a finite number, as "1;2" and "3rd" do.
[[nodiscard]] inline bool begins_with_number(std::string_view text)
{
  double number = 0;
  const auto [at, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error != std::errc::invalid_argument && is_finite(number);
}

/// A line of a table, without its newline.
struct CsvLine
{
  std::string_view text;
  std::size_t number;  // counted from 1
  const std::string& file;
  char separator;

  /// The beginning of a message: the file and the number of the line.
  [[nodiscard]] std::string where() const
  {
    return "got " + file + ", whose line " + std::to_string(number);
  }

  /// Calls f(value) for those values in [first, last) that the line has. Returns how many values
  /// the line has before `last`.
  /// @throws DataError for a value that is not a finite number
  template <class F>
  std::size_t parse(std::size_t first, std::size_t last, F f) const
  {
    return for_each_value(last, [&](std::string_view value, std::size_t number_of_value) {
      if (number_of_value < first) return;
      const std::optional<double> x = parse_number(value);
      if (!x || !is_finite(*x)) refuse(value, number_of_value);
      f(*x);
    });
  }

 private:
  /// Calls f(value, index) for the first `last` values of the line, or for all if it has fewer.
  /// Returns how many these are. Indices begin at 0.
  template <class F>
  std::size_t for_each_value(std::size_t last, F f) const
  {
    std::string_view rest = text;
    std::size_t count = 0;
    for (bool more = true; more && count < last; ++count)
    {
      more = rest.find(separator) != rest.npos;
      f(trim(take_until(rest, separator)), count);
    }
    return count;
  }

  [[noreturn]] void refuse(std::string_view value, std::size_t count) const
  {
    throw DataError{
        where() + ", value " + std::to_string(count + 1) + ", is " + quote(value, 20) +
        ", which is not a finite number, so nothing can be computed with it; write one, such as "
        "-1.5e3, or " +
        advice(value)};
  }
  [[nodiscard]] const char* advice(std::string_view value) const
  {
    if (number == 1 && is_header()) return "skip a header with .header = true";
    if (begins_with_number(value) && value.find_first_of(";\t| ") != value.npos)
      return "name the separator of the values, for example .separator = ';'";
    if (!parse_number(value) && !begins_with_number(value) && !value.empty())
      return "leave the line out; number the classes from 0 if it names one";
    return "leave the line out";
  }

  /// Whether the line looks like a header: it has a name, and no value is a number, even in quotes.
  [[nodiscard]] bool is_header() const
  {
    bool has_name = false;
    bool has_number = false;
    for_each_value(text.npos, [&](std::string_view value, std::size_t) {
      if (value.size() > 1 && value.front() == value.back() &&
          (value.front() == '"' || value.front() == '\''))
        value = value.substr(1, value.size() - 2);
      has_number = has_number || parse_number(value);
      has_name = has_name || !(value.empty() || begins_with_number(value));
    });
    return has_name && !has_number;
  }
};

/// Removes and returns the text of the first line.
[[nodiscard]] inline std::string_view take_line(std::string_view& text)
{
  std::string_view line = take_until(text, '\n');
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

/// Returns the text without a byte-order mark and without blank lines at its end.
[[nodiscard]] inline std::string_view lines_of_table(std::string_view text, const std::string& file)
{
  require<DataError>(!text.starts_with("\xFF\xFE") && !text.starts_with("\xFE\xFF"), "got ", file,
                     ", which is text in UTF-16, so its digits cannot be read; save it as UTF-8");
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  const auto last = text.find_last_not_of(" \r\n");
  return last == text.npos ? "" : text.substr(0, text.find('\n', last));
}

/// For each row of a table, calls row(offset of its line), and then value(x) for each of its
/// values. Returns the table's shape.
/// @throws what parse_csv throws
template <class Row, class Value>
Shape parse_csv_rows(std::string_view text, const std::string& file, const CsvOptions& options,
                     Row row, Value value)
{
  require_no_zip(text, file, "a table of text; unpack it, or save the table as text");
  require_no_lfs_pointer(text, file);
  Shape shape;
  CsvLine line{{}, 0, file, options.separator};
  for (std::string_view rest = lines_of_table(text, file); !rest.empty();)
  {
    const auto offset = static_cast<std::size_t>(rest.data() - text.data());
    line.text = take_line(rest);
    if (++line.number == 1 && options.header) continue;
    row(offset);
    const std::size_t count = line.parse(0, line.text.npos, value);
    if (shape.rows++ == 0) shape.cols = count;
    if (count != shape.cols)
      throw DataError{line.where() + " has " + std::to_string(count) +
                      " values, but the lines before it have " + std::to_string(shape.cols) +
                      ", so their columns are unclear; make the lines equally long"};
  }
  return shape;
}

}  // namespace detail

/// Parses the text of a table.
/// @param text the whole file
/// @param file the file's name, for messages
/// @throws DataError, naming line and value, for a value that is not a finite number, and for lines
/// with different numbers of values
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

/// Reads a table from a file.
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
