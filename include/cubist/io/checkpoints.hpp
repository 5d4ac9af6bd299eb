// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The checkpoints of a training run: a folder of safetensors files, one for each saved step,
// `step-000000000050.safetensors`. They do not depend on scheme or mesh, so a run may continue on
// another one. Files are written atomically (atomic_file.hpp): a job may be killed at any time.
//
//   Checkpoints checkpoints{mesh, "run1", {.keep = 3}};
//   const auto state = state_of(mlp, adam);
//   std::uint64_t step = checkpoints.load(state).value_or(0);
//   while (step < 1000)
//   {
//     …
//     if (++step % 50 == 0) checkpoints.save(step, state);
//   }

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cubist/core/error.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/dist/staging.hpp"
#include "cubist/dist/state.hpp"
#include "cubist/io/file.hpp"
#include "cubist/io/safetensors.hpp"
#include "cubist/mesh/mesh.hpp"

namespace cubist::CUBIST_ABI
{

/// The options of checkpoints.
struct CheckpointOptions
{
  /// The number of checkpoints that are kept; the oldest are removed first. 0 keeps all.
  std::size_t keep = 0;
};

/// Every rank of the mesh calls its functions, and idle ranks may. All nodes share the folder.
template <class A, class B>
class Checkpoints
{
 public:
  /// The mesh of the state.
  using M = AxisMesh<A, B>;

  /// Checkpoints in a folder, which is created if it does not exist. Every rank of the mesh calls
  /// it.
  Checkpoints(const AxisMesh<A, B>& mesh, std::filesystem::path folder,
              const CheckpointOptions& options = {})
      : mesh_{mesh}, folder_{std::move(folder)}, options_{options}
  {
  }

  /// Saves the state after step `step`, and removes the oldest checkpoints beyond `keep`.
  /// @throws DataError where the system refuses; older checkpoints stay complete
  template <Scalar T>
  void save(std::uint64_t step, const State<T, M>& state)
  {
    if (!mesh_.active()) return;
    Metadata metadata{{"step", std::to_string(step)}};
    for (const auto& number : state.numbers)
      require<ArgumentError>(metadata.emplace(number.name, std::to_string(*number.value)).second,
                             "got two numbers with the name ", number.name,
                             ", of which only one could be loaded; give each its own");
    if (is_root()) create_folders(folder_);
    detail::save_lists(file(step), std::move(metadata), state.matrices, state.accumulators);
    if (is_root()) remove_oldest(step);
  }

  /// Sets the state from the newest checkpoint, and returns its step. Without a checkpoint, and on
  /// idle ranks, returns nothing and leaves the state unchanged.
  /// @throws what the other `load` throws
  template <Scalar T>
  [[nodiscard]] std::optional<std::uint64_t> load(const State<T, M>& state)
  {
    if (!mesh_.active()) return std::nullopt;
    // Rank 0 chooses, because nodes may see different states of the folder.
    std::vector<std::uint64_t> newest(2);
    if (is_root())
      if (const auto all = steps(); !all.empty()) newest = {1, *all.rbegin()};
    with_staging_buffer(mesh_.engine(), std::span{newest},
                        [&](auto numbers) { mesh_.world().broadcast(numbers, 0); });
    if (newest[0] == 0) return std::nullopt;
    load(newest[1], state);
    return newest[1];
  }

  /// Sets the state from the checkpoint of step `step`.
  /// @throws DataError for one that is missing, damaged, or of another network or configuration
  /// @throws ShapeError for matrices of other shapes
  template <Scalar T>
  void load(std::uint64_t step, const State<T, M>& state)
  {
    if (!mesh_.active()) return;
    const SafetensorsFile saved{file(step)};
    std::vector<std::uint64_t> numbers;
    for (const auto& number : state.numbers) numbers.push_back(find(saved, number));
    check_tensors(saved, state);
    saved.load(state.matrices);
    saved.load(state.accumulators);
    for (std::size_t i = 0; i < numbers.size(); ++i)
      if (!state.numbers[i].setting) *state.numbers[i].value = numbers[i];
  }

  /// The steps that have checkpoints, as this rank sees the folder.
  [[nodiscard]] std::set<std::uint64_t> steps() const
  {
    std::set<std::uint64_t> all;
    std::error_code error;
    for (std::filesystem::directory_iterator entry{folder_, error}, end; !error && entry != end;
         entry.increment(error))
      if (const auto step = step_of(entry->path().filename().string())) all.insert(*step);
    require<DataError>(!error || error == std::errc::no_such_file_or_directory, "cannot list ",
                       folder_.string(), " (", error.message(),
                       "), so checkpoints in it would be missed; check the path");
    return all;
  }

  /// The file of a checkpoint.
  [[nodiscard]] std::filesystem::path file(std::uint64_t step) const
  {
    return folder_ / (prefix + file_number(step, width) + suffix);
  }

 private:
  static constexpr const char* prefix = "step-";
  static constexpr const char* suffix = ".safetensors";
  static constexpr std::size_t width = 12;

  [[nodiscard]] bool is_root() const { return mesh_.rank() == 0; }

  [[nodiscard]] static std::optional<std::uint64_t> number(const std::string& text)
  {
    std::uint64_t value = 0;
    const char* end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc{} || at != end) return std::nullopt;
    return value;
  }

  [[nodiscard]] std::optional<std::uint64_t> step_of(const std::string& name) const
  {
    const auto begin = std::min(name.size(), std::string_view{prefix}.size());
    const auto step = number(name.substr(begin, name.find('.') - begin));
    return step && file(*step).filename() == name ? step : std::nullopt;
  }

  /// Keeps checkpoints that are newer than this one, as after a run that went back to an older
  /// step.
  void remove_oldest(std::uint64_t just_saved) const
  {
    auto all = steps();
    all.erase(all.upper_bound(just_saved), all.end());
    for (; options_.keep > 0 && all.size() > options_.keep; all.erase(all.begin()))
    {
      std::error_code ignored;
      std::filesystem::remove(file(*all.begin()), ignored);
    }
  }

  /// The saved value of a number of the state.
  [[nodiscard]] static std::uint64_t find(const SafetensorsFile& saved, const NamedNumber& wanted)
  {
    const auto& metadata = saved.header().metadata;
    const auto entry = metadata.find(wanted.name);
    require<DataError>(
        entry != metadata.end(), saved.path(), " has no ", wanted.name,
        ", so the run could not continue unchanged; use a checkpoint of this program");
    const auto value = number(entry->second);
    require<DataError>(
        value.has_value(), saved.path(), " has ", wanted.name, " = ", entry->second.substr(0, 20),
        ", which is not a whole number, so the checkpoint is damaged; use an older one");
    require<DataError>(!wanted.setting || *value == *wanted.value, saved.path(), " was saved with ",
                       wanted.name, " = ", *value, ", and this run has ", *wanted.value,
                       ", so it would continue differently; set it to ", *value);
    return *value;
  }

  /// A load must not silently drop or convert a saved tensor.
  template <Scalar T>
  static void check_tensors(const SafetensorsFile& saved, const State<T, M>& state)
  {
    std::map<std::string, ElementType> wanted;
    for (const auto& matrix : state.matrices) wanted.emplace(matrix.name, element_type<T>());
    for (const auto& matrix : state.accumulators)
      wanted.emplace(matrix.name, element_type<Accumulator<T>>());
    for (const auto& tensor : saved.header().tensors)
    {
      const auto mine = wanted.find(tensor.name);
      require<DataError>(mine != wanted.end(), saved.path(), " has ", tensor.name.substr(0, 100),
                         ", which this run's state does not have, so it would be lost; use the "
                         "network and the optimizer that it was saved from");
      require<DataError>(tensor.type == mine->second, saved.path(), " has ", tensor.name, " in ",
                         to_string(tensor.type), ", and this run's is ", to_string(mine->second),
                         ", so it would continue differently; use the same scalar");
    }
  }

  M mesh_;
  std::filesystem::path folder_;
  CheckpointOptions options_;
};

}  // namespace cubist::CUBIST_ABI
