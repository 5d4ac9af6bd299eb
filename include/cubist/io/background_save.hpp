// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Saves a file in a thread of each rank, while the ranks compute. The threads send no messages:
// they coordinate through files. The file has its temporary name, ending in ".part", until it is
// complete (atomic_file.hpp). Beside it is a file of marks, one for each rank but 0.
//
// The thread of a rank
//   1. waits until the engine has copied the rank's part, if it is DownloadsBeside, writes the
//      part, and syncs it. Until a caller waits for the save, it rests after each chunk, and so
//      takes memory bandwidth from the ranks for a sixteenth of the time;
//   2. unless it is rank 0, writes its mark, and syncs it. A mark is the part's terms of the
//      fingerprints, and a seal that depends on them and on the number of the save.
// Rank 0's thread then
//   3. waits for the marks of all ranks;
//   4. writes the header with the sums of all terms, syncs, and renames the file.
//
// So every rank that wrote to a file has synced it before it gets its final name, as with
// AtomicFile. A rank whose thread fails writes no mark. Ranks tell each other about errors in a
// collective call of the program (checkpoints.hpp), never from their threads.
// docs/decisions/0052-saving-beside-the-training.md gives the reasons.

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "cubist/core/compiled.hpp"
#include "cubist/core/error.hpp"
#include "cubist/io/atomic_file.hpp"
#include "cubist/io/file.hpp"
#include "cubist/io/folder_lock.hpp"
#include "cubist/io/safetensors.hpp"
#include "cubist/io/safetensors_header.hpp"
#include "cubist/memory/huge_pages.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// A rank's memory for the copy, which is kept from one save to the next, with what an engine has
/// prepared to copy to it.
class KeptCopy
{
 public:
  /// Returns memory for this many bytes. The earlier contents are lost.
  [[nodiscard]] std::byte* get(std::size_t bytes)
  {
    if (bytes > this->bytes())
    {
      prepared_.reset();
      data_ = {};  // before it needs memory for the new one
      data_ = {HugePages<std::byte>{}.allocate(bytes), Free{bytes}};
    }
    return data_.get();
  }

  [[nodiscard]] std::size_t bytes() const { return data_.get_deleter().bytes; }

  /// Returns the D that is made from this memory once, and ends before the memory is freed.
  /// @pre D is the same in each call
  template <class D>
  [[nodiscard]] D& prepared()
  {
    if (!prepared_) prepared_ = std::make_shared<D>(std::span{data_.get(), bytes()});
    return *static_cast<D*>(prepared_.get());
  }

 private:
  struct Free
  {
    std::size_t bytes;

    void operator()(std::byte* data) const { HugePages<std::byte>{}.deallocate(data, bytes); }
  };

  std::unique_ptr<std::byte, Free> data_;
  std::shared_ptr<void> prepared_;  // ends before the memory
};

/// What one rank knows about a file that is saved in the background.
struct BackgroundFile
{
  /// Called after each chunk of a matrix.
  using Rest = std::function<void()>;
  /// Writes a matrix, and returns its term of the fingerprint.
  using Write = std::function<std::uint64_t(File&, const Rest&)>;

  std::filesystem::path path;  ///< the final name
  SafetensorsHeader header;    ///< without fingerprints
  std::uint64_t bytes = 0;     ///< the size of the complete file
  std::uint64_t number = 0;    ///< identifies the save; the same on all ranks
  int rank = 0;
  int ranks = 1;
  /// Waits until this rank's matrices are copied; empty if they are. The thread calls it first.
  std::function<void()> wait_for_copy = {};
  /// Writes each matrix of the header; empty for a matrix that another rank writes.
  std::vector<Write> writes = {};
  /// Rank 0's thread calls this once the file has its final name.
  std::function<void()> published = {};
};

/// One rank's save in the background, at most one at a time. Only the rank's thread may call it.
class BackgroundSave
{
 public:
  /// @param patience  how long the destructor waits for other ranks, in addition to the time that
  /// this rank's part took
  /// @param rest_to_work  how many times as long as it computes the thread rests while it writes
  explicit BackgroundSave(std::chrono::milliseconds patience = std::chrono::seconds{2},
                          int rest_to_work = 15)
      : patience_{patience},
        rest_to_work_{rest_to_work}
  {
  }
  BackgroundSave(const BackgroundSave&) = delete;
  BackgroundSave& operator=(const BackgroundSave&) = delete;
  /// Finishes the save that is in flight, and prints its error. Does not wait for a rank that has
  /// failed.
  ~BackgroundSave();

  /// The memory that saves copy the state to.
  [[nodiscard]] KeptCopy& copy() { return copy_; }

  /// Keeps other runs from saving to a folder as long as this object exists.
  /// @pre the folder exists
  /// @throws DataError if another run saves to it
  void lock(const std::filesystem::path& folder) { lock_ = FolderLock::of(folder); }

  /// Creates the file under its temporary name, and the file of marks. Rank 0 calls it before any
  /// rank starts its thread.
  /// @throws DataError if the system refuses
  void create(BackgroundFile file);
  /// Starts the thread.
  /// @param writes_first  whether this call writes the rank's part before it returns, so that the
  /// thread only syncs it
  /// @pre !is_in_flight()
  void start(BackgroundFile file, bool writes_first);

  /// The time at which the disk has written the last save, for an engine that is WritesInTime. Such
  /// saves have no thread.
  double simulated_end = 0;

  /// Whether a save was started and not yet finished; the same on all ranks.
  [[nodiscard]] bool is_in_flight() const { return thread_.joinable(); }
  /// What this rank's thread is doing.
  enum class Phase
  {
    done,
    writes,  ///< writes, or waits for other ranks
    failed
  };
  [[nodiscard]] Phase phase() const;
  /// Waits until this rank's part is on the disk, which no longer rests; returns its error, or "".
  [[nodiscard]] std::string wait_for_part();
  /// Waits for the end of the thread; returns its error, or "".
  /// @param cancels  whether rank 0 stops waiting for marks
  [[nodiscard]] std::string finish(bool cancels);

 private:
  using Clock = std::chrono::steady_clock;

  void run(const std::stop_token& stop, bool writes_first);
  void write_part(const BackgroundFile::Rest& rest);
  /// Returns a function that rests after the thread has computed, until a caller waits for it.
  [[nodiscard]] BackgroundFile::Rest make_rest();
  void write_mark() const;
  /// Adds the terms of a rank's mark to `sums`, if the mark is in the file. Returns whether it is.
  [[nodiscard]] bool read_mark(int rank, std::vector<std::uint64_t>& sums) const;
  void publish(const std::stop_token& stop);
  /// Whether the file no longer has its temporary name.
  [[nodiscard]] bool is_renamed() const { return !file_ || !file_->has_its_name(); }
  /// Calls f(), and keeps the text of its error.
  template <class F>
  void keep_error(F f);

  [[nodiscard]] std::string marks() const { return part_of(plan_.path).string() + ".marks"; }
  /// Where the mark of a rank begins in the file of marks.
  [[nodiscard]] std::uint64_t mark_begin(int rank) const;

  std::chrono::milliseconds patience_;
  int rest_to_work_;
  KeptCopy copy_;
  std::shared_ptr<FolderLock> lock_;
  BackgroundFile plan_;
  std::unique_ptr<File> file_;
  std::vector<std::uint64_t> sums_;
  Clock::time_point began_;

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::string error_;      // the mutex guards it and the next three
  bool has_part_ = false;  // this rank's part is on the disk, or has failed
  bool is_done_ = false;
  bool is_awaited_ = false;
  std::jthread thread_;  // ends before the other members
};

}  // namespace cubist::CUBIST_ABI::detail

#include CUBIST_BODY("cubist/io/background_save_body.hpp")
