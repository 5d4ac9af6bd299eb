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

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cubist/core/compiled.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/instances.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/io/element_type.hpp"
#include "cubist/io/file.hpp"
#include "cubist/io/safetensors.hpp"
#include "cubist/matrix/staging.hpp"
#include "cubist/matrix/state.hpp"
#include "cubist/mesh/mesh.hpp"

namespace cubist::CUBIST_ABI
{

/// The options of checkpoints.
struct CheckpointOptions
{
  /// The number of checkpoints that are kept; the oldest are removed first. 0 keeps all.
  std::size_t keep = 0;
};

namespace detail
{

/// The file of the checkpoint of a step.
[[nodiscard]] std::filesystem::path checkpoint_file(const std::filesystem::path& folder,
                                                    std::uint64_t step);
/// The steps that have checkpoints in a folder.
/// @throws DataError for a folder that cannot be listed
[[nodiscard]] std::set<std::uint64_t> checkpoint_steps(const std::filesystem::path& folder);
/// Removes the oldest checkpoints beyond `keep`; 0 keeps all. It keeps checkpoints that are newer
/// than `just_saved`, as after a run that went back to an older step.
void remove_oldest_checkpoints(const std::filesystem::path& folder, std::size_t keep,
                               std::uint64_t just_saved);
/// What a checkpoint has in addition to its matrices.
/// @throws ArgumentError for two numbers of one name
[[nodiscard]] Metadata checkpoint_metadata(std::uint64_t step,
                                           const std::vector<NamedNumber>& numbers);
/// The saved value of a number of the state.
/// @throws DataError for one that is missing, damaged or of another configuration
[[nodiscard]] std::uint64_t saved_number(const SafetensorsFile& saved, const NamedNumber& wanted);
/// A load must not silently drop or convert a saved tensor.
/// @param wanted the types of the state's matrices, by name
/// @throws DataError for a tensor that the state does not have
void check_saved_tensors(const SafetensorsFile& saved,
                         const std::map<std::string, ElementType>& wanted);

/// Saves the state after a step, and removes the oldest checkpoints beyond `keep`. Every rank of
/// the mesh calls it.
template <Scalar T, class M>
void save_checkpoint(const M& mesh, const std::string& folder, std::size_t keep, std::uint64_t step,
                     const State<T, M>& state)
{
  Metadata metadata = checkpoint_metadata(step, state.numbers);
  if (mesh.rank() == 0) create_folders(folder);
  save_lists(checkpoint_file(folder, step), std::move(metadata), state.matrices,
             state.accumulators);
  if (mesh.rank() == 0) remove_oldest_checkpoints(folder, keep, step);
}

/// Sets the state from a checkpoint's file. Every rank of the mesh calls it.
template <Scalar T, class M>
void load_checkpoint(const std::string& file, const State<T, M>& state)
{
  const SafetensorsFile saved{file};
  std::vector<std::uint64_t> numbers;
  for (const auto& number : state.numbers) numbers.push_back(saved_number(saved, number));
  std::map<std::string, ElementType> wanted;
  for (const auto& matrix : state.matrices) wanted.emplace(matrix.name, element_type<T>());
  for (const auto& matrix : state.accumulators)
    wanted.emplace(matrix.name, element_type<Accumulator<T>>());
  check_saved_tensors(saved, wanted);
  // Both lists are checked before the first matrix changes.
  (void)saved.places(state.accumulators);
  saved.load(state.matrices);
  saved.load(state.accumulators);
  for (std::size_t i = 0; i < numbers.size(); ++i)
    if (!state.numbers[i].setting) *state.numbers[i].value = numbers[i];
}

}  // namespace detail

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
      : mesh_{mesh},
        folder_{std::move(folder)},
        options_{options}
  {
  }

  /// Saves the state after step `step`, and removes the oldest checkpoints beyond `keep`.
  /// @throws DataError where the system refuses; older checkpoints stay complete
  template <Scalar T>
  void save(std::uint64_t step, const State<T, M>& state)
  {
    if (!mesh_.active()) return;
    detail::save_checkpoint(mesh_, folder_.string(), options_.keep, step, state);
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

  /// Sets the state from the checkpoint of step `step`. An error leaves the state unchanged, unless
  /// the elements are damaged, which shows after they were read: then the matrices may have
  /// changed, the numbers have not.
  /// @throws DataError for one that is missing, damaged, or of another network or configuration
  /// @throws ShapeError for matrices of other shapes
  template <Scalar T>
  void load(std::uint64_t step, const State<T, M>& state)
  {
    if (!mesh_.active()) return;
    detail::load_checkpoint(file(step).string(), state);
  }

  /// The steps that have checkpoints, as this rank sees the folder.
  [[nodiscard]] std::set<std::uint64_t> steps() const { return detail::checkpoint_steps(folder_); }

  /// The file of a checkpoint.
  [[nodiscard]] std::filesystem::path file(std::uint64_t step) const
  {
    return detail::checkpoint_file(folder_, step);
  }

 private:
  [[nodiscard]] bool is_root() const { return mesh_.rank() == 0; }

  M mesh_;
  std::filesystem::path folder_;
  CheckpointOptions options_;
};

/// The instances of the compiled library (cubist/core/instances.hpp).
#define CUBIST_CHECKPOINT_INSTANCES(prefix, M, T)                                                  \
  prefix void detail::save_checkpoint<T, M>(const M&, const std::string&, std::size_t,             \
                                            std::uint64_t, const State<T, M>&);                    \
  prefix void detail::load_checkpoint<T, M>(const std::string&, const State<T, M>&);
CUBIST_FOR_TRAINED_MESHES(CUBIST_CHECKPOINT_INSTANCES)

}  // namespace cubist::CUBIST_ABI

#include CUBIST_BODY("cubist/io/checkpoints_body.hpp")
