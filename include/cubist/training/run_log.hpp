// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The log of a training run: a line of JSON for each step, appended to a file.
//
//   {"step":12,"loss":2.301,"learning_rate":0.0003,"seconds":0.21}
//
// If a Trainer evaluates the network after a step, the step has a second line, with the values of
// the first line and the metrics, such as "held-out loss". A run that goes on from a checkpoint
// appends to the same file, and may repeat steps. If a step has several lines, the last one counts.
// A line that a killed run has left incomplete is ended, and readers skip it.

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include "cubist/core/compiled.hpp"
#include "cubist/core/error.hpp"

#ifndef CUBIST_COMPILED
#include <nlohmann/json.hpp>
#endif

namespace cubist::CUBIST_ABI
{

/// A number by name, as of a step: "loss", 2.301.
struct NamedValue
{
  std::string name;
  double value = 0;  ///< the number
};

class RunLog
{
 public:
  /// A log that writes nothing.
  RunLog() = default;
  /// A log that appends to `file`, whose folder is created.
  /// @throws DataError for a file that cannot be written
  explicit RunLog(std::filesystem::path file) : path_{std::move(file)} { open(); }

  /// Appends the line of a step, and passes it to the system.
  /// @throws DataError where the system refuses
  void append(std::uint64_t step, std::span<const NamedValue> values);

 private:
  void open();
  void check() const;

  std::filesystem::path path_;
  std::ofstream file_;
};

#ifndef CUBIST_COMPILED

namespace detail
{

/// The last character of a file, or a newline if it has none.
[[nodiscard]] inline char last_character(const std::filesystem::path& file)
{
  std::ifstream in{file, std::ios::binary | std::ios::ate};
  char last = '\n';
  if (in.good() && in.tellg() > 0) in.seekg(-1, std::ios::end).get(last);
  return last;
}

}  // namespace detail

CUBIST_INLINE void RunLog::open()
{
  std::error_code ignored;
  if (path_.has_parent_path()) std::filesystem::create_directories(path_.parent_path(), ignored);
  const bool ends = detail::last_character(path_) == '\n';
  file_.open(path_, std::ios::app);
  if (!ends) file_ << '\n';
  check();
}

CUBIST_INLINE void RunLog::append(std::uint64_t step, std::span<const NamedValue> values)
{
  if (path_.empty()) return;
  nlohmann::ordered_json line{{"step", step}};
  for (const auto& v : values) line[v.name] = v.value;  // null unless it is finite
  file_ << line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n' << std::flush;
  check();
}

CUBIST_INLINE void RunLog::check() const
{
  require<DataError>(file_.good(), "cannot write ", path_.string(),
                     ", so the log of the run would be lost; give the path of a file that can be "
                     "written, with space on its disk");
}

#endif

}  // namespace cubist::CUBIST_ABI
