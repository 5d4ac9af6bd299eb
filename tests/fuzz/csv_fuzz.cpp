// SPDX-License-Identifier: BSD-3-Clause

// The input is a byte that selects options, and a text.

#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "cubist/io/csv.hpp"

#include "fuzz.hpp"

using namespace cubist;
using cubist::fuzz::accepts;
using cubist::fuzz::demand;

namespace
{

std::string format(const CsvTable& table, char separator)
{
  std::string text;
  for (std::size_t i = 0; i < table.values.size(); ++i)
  {
    std::array<char, 32> digits;
    const auto end = std::to_chars(digits.begin(), digits.end(), table.values[i]).ptr;
    text.append(digits.begin(), end);
    text += (i + 1) % table.cols == 0 ? '\n' : separator;
  }
  return text;
}

bool same(const CsvTable& a, const CsvTable& b)
{
  const auto equal = [](double x, double y) {
    return std::bit_cast<std::uint64_t>(x) == std::bit_cast<std::uint64_t>(y);
  };
  return a.rows == b.rows && a.cols == b.cols &&
         std::equal(a.values.begin(), a.values.end(), b.values.begin(), b.values.end(), equal);
}

}  // namespace

CUBIST_FUZZ_TARGET(csv)
{
  if (size == 0) return 0;
  const CsvOptions options{.separator = ",;\t "[data[0] % 4], .header = data[0] / 4 % 2 == 1};
  const std::string_view text{reinterpret_cast<const char*>(data) + 1, size - 1};
  accepts([&] {
    const auto table = parse_csv(text, "file", options);
    demand(table.values.size() == table.rows * table.cols,
           "every row has the same number of values");
    demand(std::all_of(table.values.begin(), table.values.end(),
                       [](double x) { return std::isfinite(x); }),
           "values are finite");
    const bool accepted = accepts([&] {
      const auto text_again = format(table, options.separator);
      demand(same(table, parse_csv(text_again, "again", {.separator = options.separator})),
             "a written table is parsed as the same");
    });
    demand(accepted, "a written table is accepted");
  });
  return 0;
}
