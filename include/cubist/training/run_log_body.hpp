// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The functions of run_log.hpp that the compiled library contains.

#include <system_error>

#include <nlohmann/json.hpp>

#include "cubist/training/run_log.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

/// Returns the last character of a file, or a newline if it has none.
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

}  // namespace cubist::CUBIST_ABI
