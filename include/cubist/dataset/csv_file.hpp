// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A memory-mapped CSV file with random access to its values. Opening it checks all values, and
// records where each line begins, in 8 bytes per row. The numbers themselves are not kept, so the
// file may be larger than the memory.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cubist/core/block.hpp"
#include "cubist/core/error.hpp"
#include "cubist/dataset/mapped_file.hpp"
#include "cubist/io/csv.hpp"

namespace cubist::CUBIST_ABI
{

/// A CSV file. Copies share the mapping, and threads may read it at the same time.
class CsvFile
{
 public:
  /// Opens a file, and checks its values.
  /// @throws DataError for a file that cannot be read, and what `parse_csv` throws
  explicit CsvFile(const std::filesystem::path& path, const CsvOptions& options = {})
      : file_{path},
        options_{options}
  {
    std::vector<std::uint64_t> lines;
    const auto note = [&](std::size_t offset) { lines.push_back(offset); };
    shape_ = detail::parse_csv_rows(text(), file_.path(), options_, note, [](double) {});
    lines_ = std::make_shared<const std::vector<std::uint64_t>>(std::move(lines));
  }

  /// The path of the file.
  [[nodiscard]] const std::string& path() const { return file_.path(); }
  [[nodiscard]] std::size_t rows() const { return shape_.rows; }
  [[nodiscard]] std::size_t cols() const { return shape_.cols; }
  /// The line of a row, counted from 1, for messages.
  [[nodiscard]] std::uint64_t line_of(std::uint64_t row) const
  {
    return row + (options_.header ? 2 : 1);
  }

  /// Sets `out` to values [first, first + out.size()) of a row, and does not parse values after
  /// them.
  /// @throws ShapeError unless the row has these values
  void read(std::uint64_t row, std::size_t first, std::span<double> out) const
  {
    require<ShapeError>(row < rows() && first <= cols() && out.size() <= cols() - first,
                        "got a read of ", out.size(), " values from column ", first, " of row ",
                        row, ", but ", path(), " is a table of ", shape_,
                        ", which lacks some of them; read only rows and columns that it has");
    std::string_view rest = text().substr((*lines_)[row]);
    const detail::CsvLine line{detail::take_line(rest), line_of(row), path(), options_.separator};
    auto to = out.begin();
    line.parse(first, first + out.size(), [&](double x) { *to++ = x; });
  }

 private:
  [[nodiscard]] std::string_view text() const
  {
    const auto bytes = file_.bytes();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  MappedFile file_;
  CsvOptions options_;
  Shape shape_;
  std::shared_ptr<const std::vector<std::uint64_t>> lines_;
};

}  // namespace cubist::CUBIST_ABI
