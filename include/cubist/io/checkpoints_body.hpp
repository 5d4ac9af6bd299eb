// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The functions of checkpoints.hpp that are in the compiled library.

#include <algorithm>
#include <charconv>
#include <string_view>

#include "cubist/io/checkpoints.hpp"

namespace cubist::CUBIST_ABI::detail
{

inline constexpr const char* checkpoint_prefix = "step-";
inline constexpr const char* checkpoint_suffix = ".safetensors";
inline constexpr std::size_t checkpoint_width = 12;

inline std::optional<std::uint64_t> whole_number(const std::string& text)
{
  std::uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || at != end) return std::nullopt;
  return value;
}

CUBIST_INLINE std::filesystem::path checkpoint_file(const std::filesystem::path& folder,
                                                    std::uint64_t step)
{
  return folder / (checkpoint_prefix + file_number(step, checkpoint_width) + checkpoint_suffix);
}

CUBIST_INLINE std::set<std::uint64_t> checkpoint_steps(const std::filesystem::path& folder)
{
  const auto step_of = [&](const std::string& name) -> std::optional<std::uint64_t> {
    const auto begin = std::min(name.size(), std::string_view{checkpoint_prefix}.size());
    const auto step = whole_number(name.substr(begin, name.find('.') - begin));
    return step && checkpoint_file(folder, *step).filename() == name ? step : std::nullopt;
  };
  std::set<std::uint64_t> all;
  std::error_code error;
  for (std::filesystem::directory_iterator entry{folder, error}, end; !error && entry != end;
       entry.increment(error))
    if (const auto step = step_of(entry->path().filename().string())) all.insert(*step);
  require<DataError>(!error || error == std::errc::no_such_file_or_directory, "cannot list ",
                     folder.string(), " (", error.message(),
                     "), so checkpoints in it would be missed; check the path");
  return all;
}

CUBIST_INLINE void remove_oldest_checkpoints(const std::filesystem::path& folder, std::size_t keep,
                                             std::uint64_t just_saved)
{
  auto all = checkpoint_steps(folder);
  all.erase(all.upper_bound(just_saved), all.end());
  for (; keep > 0 && all.size() > keep; all.erase(all.begin()))
  {
    std::error_code ignored;
    std::filesystem::remove(checkpoint_file(folder, *all.begin()), ignored);
  }
}

CUBIST_INLINE Metadata checkpoint_metadata(std::uint64_t step,
                                           const std::vector<NamedNumber>& numbers)
{
  Metadata metadata{{"step", std::to_string(step)}};
  for (const auto& number : numbers)
    require<ArgumentError>(metadata.emplace(number.name, std::to_string(*number.value)).second,
                           "got two numbers named ", number.name,
                           ", of which only one could be loaded; give each its own name");
  return metadata;
}

CUBIST_INLINE std::uint64_t saved_number(const SafetensorsFile& saved, const NamedNumber& wanted)
{
  const auto& metadata = saved.header().metadata;
  const auto entry = metadata.find(wanted.name);
  require<DataError>(entry != metadata.end(), saved.path(), " has no ", wanted.name,
                     ", so the run could not continue unchanged; use a checkpoint of this program");
  const auto value = whole_number(entry->second);
  require<DataError>(
      value.has_value(), saved.path(), " has ", wanted.name, " = ", entry->second.substr(0, 20),
      ", which is not a whole number, so the checkpoint is damaged; use an older one");
  require<DataError>(!wanted.setting || *value == *wanted.value, saved.path(), " was saved with ",
                     wanted.name, " = ", *value, ", but this run has ", *wanted.value,
                     ", so it would continue differently; set it to ", *value);
  return *value;
}

CUBIST_INLINE void check_saved_tensors(const SafetensorsFile& saved,
                                       const std::map<std::string, ElementType>& wanted)
{
  for (const auto& tensor : saved.header().tensors)
  {
    const auto mine = wanted.find(tensor.name);
    require<DataError>(mine != wanted.end(), saved.path(), " has ", tensor.name.substr(0, 100),
                       ", which this run's state does not have, so it would be lost; use the "
                       "network and the optimizer that it was saved from");
    require<DataError>(tensor.type == mine->second, saved.path(), " has ", tensor.name, " in ",
                       to_string(tensor.type), ", but this run has it in ", to_string(mine->second),
                       ", so it would continue differently; use the same scalar");
  }
}

}  // namespace cubist::CUBIST_ABI::detail
