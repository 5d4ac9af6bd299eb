// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Saves and loads the checkpoints of a training run: a folder of safetensors files, one for each
// saved step, such as `step-000000000050.safetensors`. They do not depend on scheme or mesh, so a
// run may continue on another one. Files are written atomically (atomic_file.hpp): a job may be
// killed at any time.
//
//   Checkpoints checkpoints{mesh, "run1", {.keep = 3}};
//   const auto state = state_of(mlp, adam);
//   std::uint64_t step = checkpoints.load(state).value_or(0);
//   while (step < 1000)
//   {
//     …
//     if (++step % 50 == 0) checkpoints.save(step, state);
//   }
//
// `save_in_background` copies this rank's part of the state, and a thread writes it while the
// program goes on (background_save.hpp). An engine that is DownloadsBeside copies while the host
// goes on, and its later work waits for the copy. The next call on the same checkpoints, and their
// destructor, finish what is in flight.
//
// Elements that one rank sends: those of safetensors.hpp. `save_in_background` also all-reduces 2
// numbers, and `wait` 2 numbers twice if a save is in flight.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cubist/comm/call.hpp"
#include "cubist/core/block.hpp"
#include "cubist/core/compiled.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/instances.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/io/background_save.hpp"
#include "cubist/io/element_type.hpp"
#include "cubist/io/file.hpp"
#include "cubist/io/safetensors.hpp"
#include "cubist/io/stored_matrix.hpp"
#include "cubist/matrix/staging.hpp"
#include "cubist/matrix/state.hpp"
#include "cubist/mesh/mesh.hpp"

namespace cubist::CUBIST_ABI
{

/// What a save in the background does while an earlier one is in flight.
enum class SaveInFlight : bool
{
  wait,  ///< waits until the earlier one is on the disk
  skip   ///< saves nothing, and returns false
};

/// The options of checkpoints.
struct CheckpointOptions
{
  /// How many checkpoints are kept; the oldest are removed first. 0 keeps all.
  std::size_t keep = 0;
  /// How many copies of a rank's part of the state `save_in_background` may keep, 0 or 1. With 0,
  /// it needs no memory for a copy: it writes the state before it returns, matrix by matrix, and
  /// only waits for the disk in the background.
  std::size_t copies = 1;
  /// What `save_in_background` does while an earlier save is in flight.
  SaveInFlight in_flight = SaveInFlight::wait;
};

namespace detail
{

/// The file of a step's checkpoint.
[[nodiscard]] std::filesystem::path checkpoint_file(const std::filesystem::path& folder,
                                                    std::uint64_t step);
/// The steps that have checkpoints in a folder.
/// @throws DataError for a folder that cannot be listed
[[nodiscard]] std::set<std::uint64_t> checkpoint_steps(const std::filesystem::path& folder);
/// Removes the oldest checkpoints beyond `keep`; 0 keeps all. Keeps checkpoints that are newer than
/// `just_saved`, which exist if a run went back to an older step.
void remove_oldest_checkpoints(const std::filesystem::path& folder, std::size_t keep,
                               std::uint64_t just_saved);
/// Returns what a checkpoint stores besides its matrices: the step, and the numbers of the state.
/// @throws ArgumentError for two numbers of the same name
[[nodiscard]] Metadata checkpoint_metadata(std::uint64_t step,
                                           const std::vector<NamedNumber>& numbers);
/// Returns the saved value of a number of the state.
/// @throws DataError for a number that is missing, damaged or of another configuration
[[nodiscard]] std::uint64_t saved_number(const SafetensorsFile& saved, const NamedNumber& wanted);
/// Checks that a load drops and converts no saved tensor.
/// @param wanted the types of the state's matrices, by name
/// @throws DataError for a tensor that the state lacks, or that has another type there
void check_saved_tensors(const SafetensorsFile& saved,
                         const std::map<std::string, ElementType>& wanted);

/// Finds the first rank with an error, if any, and throws that error on all ranks.
template <class M>
class FirstFailure
{
 public:
  /// Every rank of the mesh makes one.
  /// @param error  this rank's error, or ""
  /// @param number  any number
  FirstFailure(const M& mesh, const std::string& error, std::uint64_t number = 0)
      : mesh_{mesh},
        error_{error}
  {
    const auto ranks = static_cast<std::uint64_t>(mesh.size());
    std::vector<std::uint64_t> largest{
        error.empty() ? 0 : ranks - static_cast<std::uint64_t>(mesh.rank()), number};
    all_reduce_numbers(mesh, std::span{largest}, ReduceOp::max);
    exists_ = largest[0] > 0;
    rank_ = static_cast<int>(ranks - largest[0]);
    largest_ = largest[1];
  }

  /// Whether any rank has an error.
  [[nodiscard]] bool exists() const { return exists_; }
  /// The largest number that any rank gave.
  [[nodiscard]] std::uint64_t largest() const { return largest_; }
  /// Throws the error of the lowest rank that has one. Every rank of the mesh calls it.
  /// @throws DataError if any rank has an error
  void raise() const
  {
    if (!exists_) return;
    std::string text(1024, '\0');  // the part of the error that is sent
    std::copy_n(error_.begin(), std::min(error_.size(), text.size() - 1), text.begin());
    std::vector<std::uint64_t> words(text.size() / sizeof(std::uint64_t));
    std::memcpy(words.data(), text.data(), text.size());
    with_staging_buffer(mesh_.engine(), std::span{words},
                        [&](auto staged) { mesh_.world().broadcast(staged, rank_); });
    std::memcpy(text.data(), words.data(), text.size());
    DataError error{text.c_str()};
    error.add_place("on rank " + std::to_string(rank_));
    throw error;
  }

 private:
  const M& mesh_;
  const std::string& error_;
  bool exists_ = false;
  int rank_ = 0;
  std::uint64_t largest_ = 0;
};

/// Waits for the save that is in flight. Every rank of the mesh calls it.
/// @throws DataError, on every rank, if a rank could not write
template <class M>
void finish_save(const M& mesh, BackgroundSave& background)
{
  if constexpr (WritesInTime<typename M::Engine>)
  {
    mesh.engine().wait_until(background.simulated_end);
    return mesh.world().barrier();
  }
  if (!background.is_in_flight()) return;
  const std::string error = background.wait_for_part();
  const FirstFailure of_parts{mesh, error};
  // Rank 0's thread waits for the parts of all ranks. If a rank has failed, it would wait for ever.
  const std::string end = background.finish(of_parts.exists());
  of_parts.raise();
  FirstFailure{mesh, end}.raise();
}

/// Saves the state after a step, and removes the oldest checkpoints beyond `keep`. Every rank of
/// the mesh calls it.
template <Scalar T, class M>
void save_checkpoint(const M& mesh, BackgroundSave& background, const std::string& folder,
                     std::size_t keep, std::uint64_t step, const State<T, M>& state)
{
  finish_save(mesh, background);
  Metadata metadata = checkpoint_metadata(step, state.numbers);
  if (mesh.rank() == 0)
  {
    create_folders(folder);
    background.lock(folder);
  }
  save_lists(checkpoint_file(folder, step), std::move(metadata), state.matrices,
             state.accumulators);
  if (mesh.rank() == 0) remove_oldest_checkpoints(folder, keep, step);
}

/// Starts copies of matrices to the host, and returns the function that waits for them. It also
/// throws the error of copies that could not be started, so that the next call tells all ranks.
template <DownloadsBeside E>
[[nodiscard]] std::function<void()> start_downloads(const E& engine, KeptCopy& kept,
                                                    std::span<const Download> all)
{
  if (all.empty()) return {};
  try
  {
    auto& downloads = kept.prepared<typename E::Downloads>();
    engine.download_beside(all, downloads);
    return [&downloads] { downloads.wait(); };
  }
  catch (const CaptureError&)
  {
    throw;
  }
  catch (const Error&)
  {
    return [error = std::current_exception()] { std::rethrow_exception(error); };
  }
}

/// Copies this rank's parts of a state, or starts to, and sets the functions of the file that wait
/// for the copy and write it.
/// @param begin  the first byte of the tensors in the file
template <Scalar T, class M>
void copy_parts(const M& mesh, BackgroundFile& file, std::uint64_t begin, KeptCopy& kept,
                bool copies, const State<T, M>& state)
{
  using E = typename M::Engine;
  const int rank = mesh.rank();
  constexpr std::size_t line = HugePages<std::byte>::cache_line;
  std::size_t bytes = 0;
  const auto place = [&]<class V>(const NamedMatrix<V, M>& m) {
    const std::size_t mine = m.matrix.block(rank).valid().size() * sizeof(V);
    return std::exchange(bytes, pad(bytes + mine, line));
  };
  for_each_matrix(
      [&](const auto& m) {
        if (m.matrix.is_primary(rank)) (void)place(m);
      },
      state.matrices, state.accumulators);
  std::byte* const copy = copies ? kept.get(bytes) : nullptr;

  auto& writes = file.writes;
  [[maybe_unused]] std::vector<Download> downloads;
  bytes = 0;
  for_each_matrix(
      [&]<class V>(const NamedMatrix<V, M>& m) {
        const auto& x = m.matrix;
        const TensorInfo& tensor = file.header.tensors[writes.size()];
        const StoredMatrix stored{begin + tensor.begin, tensor.type, x.shape};
        const Block block = x.block(rank);
        if (!x.is_primary(rank))
          writes.emplace_back();
        else if (!copies)
          writes.emplace_back([stored, block, x](File& to, const BackgroundFile::Rest&) {
            return write_block<V>(to, stored, block, x.mesh.engine(), x.valid());
          });
        else
        {
          const MatrixView<V> mine{reinterpret_cast<V*>(copy + place(m)), block.valid()};
          const MatrixView<const V> from{x.valid()};
          if constexpr (DownloadsBeside<E>)
            downloads.push_back(Download::of(from, mine));
          else
            x.mesh.engine().download(from, mine);
          writes.emplace_back([stored, block, mine](File& to, const auto& rest) {
            return write_copy<V>(to, stored, block, mine, rest);
          });
        }
      },
      state.matrices, state.accumulators);
  if constexpr (DownloadsBeside<E>)
    file.wait_for_copy = start_downloads(mesh.engine(), kept, std::span{std::as_const(downloads)});
}

/// Simulates the time of a save in the background: a rank copies its part, and the disk writes it.
/// @returns false if the save was skipped
template <WritesInTime E, Scalar T, class M>
bool start_simulated(const M& mesh, const E& engine, BackgroundSave& background,
                     const CheckpointOptions& options, const State<T, M>& state)
{
  const bool writes = background.simulated_end > engine.seconds();
  if (options.in_flight == SaveInFlight::skip && all_reduced(mesh, int{writes}, ReduceOp::max) > 0)
    return false;
  finish_save(mesh, background);
  double bytes = 0;
  for_each_matrix(
      [&]<class V>(const NamedMatrix<V, M>& m) {
        if (!m.matrix.is_primary(mesh.rank())) return;
        const MatrixView<V> mine = m.matrix.valid();
        engine.copy(MatrixView<const V>{mine}, mine);
        bytes += static_cast<double>(mine.size()) * sizeof(V);
      },
      state.matrices, state.accumulators);
  background.simulated_end = engine.start_write(bytes);
  if (options.copies == 0) engine.wait_until(background.simulated_end);
  return true;
}

/// Starts a save in the background. Every rank of the mesh calls it.
/// @returns false if the save was skipped
template <Scalar T, class M>
bool start_checkpoint(const M& mesh, BackgroundSave& background, const std::string& folder,
                      const CheckpointOptions& options, std::uint64_t step,
                      const State<T, M>& state)
{
  require<ArgumentError>(options.copies <= 1, "got ", options.copies,
                         " copies of the state, but saves in the background use at most one, "
                         "because one is in flight at a time; use 0 or 1");
  if constexpr (WritesInTime<typename M::Engine>)
    return start_simulated(mesh, mesh.engine(), background, options, state);
  if (options.in_flight == SaveInFlight::skip && background.is_in_flight())
  {
    const int phase = all_reduced(mesh, static_cast<int>(background.phase()), ReduceOp::max);
    if (phase == static_cast<int>(BackgroundSave::Phase::writes)) return false;
  }
  finish_save(mesh, background);
  (void)mesh_of(state.matrices);
  BackgroundFile file{.path = checkpoint_file(folder, step),
                      .header = make_header(checkpoint_metadata(step, state.numbers),
                                            state.matrices, state.accumulators),
                      .rank = mesh.rank(),
                      .ranks = mesh.size()};
  const std::uint64_t begin = format_safetensors_header(file.header).size();
  file.bytes = begin + file.header.bytes();
  std::string error;
  if (file.rank == 0)
  {
    file.number = std::random_device{}();
    file.published = [folder, keep = options.keep, step] {
      remove_oldest_checkpoints(folder, keep, step);
    };
    try
    {
      create_folders(folder);
      background.lock(folder);
      background.create(file);
    }
    catch (const DataError& e)
    {
      error = e.what();
    }
  }
  const FirstFailure failure{mesh, error, file.number};
  failure.raise();
  file.number = failure.largest();
  const bool copies = options.copies > 0;
  copy_parts(mesh, file, begin, background.copy(), copies, state);
  background.start(std::move(file), !copies);
  return true;
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

/// The checkpoints in a folder, which all nodes share. Every rank of the mesh calls each function,
/// and idle ranks may.
template <class A, class B>
class Checkpoints
{
 public:
  /// The mesh of the state.
  using M = AxisMesh<A, B>;

  /// Names the folder, which the first save creates if it does not exist. Every rank of the mesh
  /// calls it.
  Checkpoints(const AxisMesh<A, B>& mesh, std::filesystem::path folder,
              const CheckpointOptions& options = {})
      : mesh_{mesh},
        folder_{std::move(folder)},
        options_{options},
        background_{std::make_shared<detail::BackgroundSave>()}
  {
  }

  /// Saves the state after step `step`, and removes the oldest checkpoints beyond `keep`.
  /// @throws DataError if the system refuses, or another run saves to the folder; older checkpoints
  /// stay complete
  template <Scalar T>
  void save(std::uint64_t step, const State<T, M>& state)
  {
    if (!mesh_.active()) return;
    detail::save_checkpoint(mesh_, *background_, folder_.string(), options_.keep, step, state);
  }

  /// Starts to save the state after step `step`: copies this rank's part, and a thread of each rank
  /// writes the copy while the program may change the state. A GPU copies while the host goes on.
  /// The file gets its final name once all ranks have written. Later saves reuse the memory of the
  /// copy.
  /// @returns false if an earlier save is in flight and this one is skipped (`in_flight`)
  /// @throws DataError, on every rank, if the system refuses this save, or has refused the one
  /// before; older checkpoints stay complete
  template <Scalar T>
  bool save_in_background(std::uint64_t step, const State<T, M>& state)
  {
    return !mesh_.active() ||
           detail::start_checkpoint(mesh_, *background_, folder_.string(), options_, step, state);
  }

  /// Waits until the save that is in flight, if there is one, is on the disk under its name.
  /// @throws DataError, on every rank, if the system refused; older checkpoints stay complete
  void wait()
  {
    if (mesh_.active()) detail::finish_save(mesh_, *background_);
  }

  /// Sets the state from the newest checkpoint, and returns its step. Without a checkpoint, and on
  /// idle ranks, returns nothing and leaves the state unchanged.
  /// @throws what the other `load` throws
  template <Scalar T>
  [[nodiscard]] std::optional<std::uint64_t> load(const State<T, M>& state)
  {
    if (!mesh_.active()) return std::nullopt;
    wait();
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

  /// Sets the state from the checkpoint of step `step`. An error leaves the state unchanged, with
  /// one exception: damaged elements show only after they were read, so the matrices may have
  /// changed by then, but not the numbers.
  /// @throws DataError for a checkpoint that is missing, damaged, or of another network or
  /// configuration
  /// @throws ShapeError for matrices of other shapes
  template <Scalar T>
  void load(std::uint64_t step, const State<T, M>& state)
  {
    if (!mesh_.active()) return;
    wait();
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
  std::shared_ptr<detail::BackgroundSave> background_;  // copies of this object share it
};

/// Lists the instances in the compiled library (cubist/core/instances.hpp).
#define CUBIST_CHECKPOINT_INSTANCES(prefix, M, T)                                                  \
  CUBIST_INSTANCE(prefix, detail::save_checkpoint<T, M>)                                           \
  CUBIST_INSTANCE(prefix, detail::start_checkpoint<T, M>)                                          \
  CUBIST_INSTANCE(prefix, detail::load_checkpoint<T, M>)
CUBIST_FOR_TRAINED_MESHES(CUBIST_CHECKPOINT_INSTANCES)

}  // namespace cubist::CUBIST_ABI

#include CUBIST_BODY("cubist/io/checkpoints_body.hpp")
