// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The log of a training run: a line of JSON for each step, appended to a file.
//
//   {"step":12,"loss":2.301,"learning_rate":0.0003,"seconds":0.21}
//
// If a Trainer evaluates the network after a step, the step has a second line, with the values of
// the first line and the metrics, such as "held-out loss". A run that resumes from a checkpoint
// appends to the same file, and may repeat steps. If a step has several lines, the last one counts.
// If a killed run has left a line incomplete, the log ends that line, and readers skip it.

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <utility>

#include "cubist/core/compiled.hpp"
#include "cubist/core/error.hpp"

namespace cubist::CUBIST_ABI
{

/// A number and its name, such as "loss", 2.301.
struct NamedValue
{
  std::string name;
  double value = 0;  ///< the number
};

class RunLog
{
 public:
  /// Makes a log that writes nothing.
  RunLog() = default;
  /// Makes a log that appends to `file`, and creates its folder.
  /// @throws DataError for a file that cannot be written
  explicit RunLog(std::filesystem::path file)
      : path_{std::move(file)}
  {
    open();
  }

  /// Appends the line of a step, and flushes it to the operating system.
  /// @throws DataError if the file cannot be written
  void append(std::uint64_t step, std::span<const NamedValue> values);

 private:
  void open();
  void check() const;

  std::filesystem::path path_;
  std::ofstream file_;
};

}  // namespace cubist::CUBIST_ABI

#include CUBIST_BODY("cubist/training/run_log_body.hpp")
