// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The functions of background_save.hpp that are in the compiled library.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <exception>
#include <utility>

#include <sys/resource.h>
#include <unistd.h>

#include "cubist/core/block.hpp"
#include "cubist/core/fingerprint.hpp"
#include "cubist/io/background_save.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Each mark begins a page, because hosts that share a file system may write whole pages.
inline constexpr std::uint64_t mark_page = 4096;

/// Returns the last number of a valid mark.
[[nodiscard]] inline std::uint64_t seal_of(std::span<const std::uint64_t> sums,
                                           std::uint64_t number)
{
  std::uint64_t seal = mix(number, sums.size());
  for (std::size_t i = 0; i < sums.size(); ++i) seal += mix(sums[i] ^ number, i);
  return seal;
}

template <class F>
void BackgroundSave::keep_error(F f)
{
  std::string what;
  try
  {
    f();
    return;
  }
  catch (const DataError& e)  // which names the file
  {
    what = e.what();
  }
  catch (const Error& e)
  {
    what = std::string{e.what()} + " (in a save of " + plan_.path.string() + ")";
  }
  catch (const std::exception& e)
  {
    what = "cannot save " + plan_.path.string() + " (" + e.what() +
           "), so the checkpoint before it stays the newest; free memory, and save again";
  }
  const std::lock_guard lock{mutex_};
  error_ = std::move(what);
}

CUBIST_INLINE std::uint64_t BackgroundSave::mark_begin(int rank) const
{
  const std::size_t words = plan_.header.tensors.size() + 1;
  return static_cast<std::uint64_t>(rank - 1) * pad(words * sizeof(std::uint64_t), mark_page);
}

CUBIST_INLINE void BackgroundSave::create(BackgroundFile file)
{
  plan_ = std::move(file);
  file_ = std::make_unique<File>(part_of(plan_.path).string(), File::Mode::create);
  file_->resize(plan_.bytes);
  // The file of marks has its full size from the start: a reader finds zeros, which are not a mark.
  if (plan_.ranks > 1) File{marks(), File::Mode::create}.resize(mark_begin(plan_.ranks));
}

CUBIST_INLINE void BackgroundSave::start(BackgroundFile file, bool writes_first)
{
  plan_ = std::move(file);
  error_.clear();
  has_part_ = is_done_ = is_awaited_ = false;
  began_ = Clock::now();
  if (writes_first) keep_error([this] { write_part([] {}); });
  thread_ =
      std::jthread{[this, writes_first](const std::stop_token& stop) { run(stop, writes_first); }};
}

CUBIST_INLINE BackgroundSave::Phase BackgroundSave::phase() const
{
  const std::lock_guard lock{mutex_};
  return !error_.empty() ? Phase::failed : is_done_ ? Phase::done : Phase::writes;
}

CUBIST_INLINE std::string BackgroundSave::wait_for_part()
{
  std::unique_lock lock{mutex_};
  is_awaited_ = true;
  changed_.notify_all();
  changed_.wait(lock, [this] { return has_part_; });
  return error_;
}

CUBIST_INLINE std::string BackgroundSave::finish(bool cancels)
{
  if (cancels) thread_.request_stop();
  thread_.join();
  thread_ = {};
  file_.reset();
  return error_;
}

CUBIST_INLINE BackgroundSave::~BackgroundSave()
{
  if (!is_in_flight()) return;
  std::string error = wait_for_part();
  const auto limit = Clock::now() + (Clock::now() - began_) + patience_;
  std::unique_lock lock{mutex_};
  // Other ranks wait for the rename, too, because the program may end when this rank does.
  while (error_.empty() && Clock::now() < limit && !(is_done_ && is_renamed()))
    changed_.wait_for(lock, std::chrono::milliseconds{10});
  lock.unlock();
  const bool was_published = is_renamed();
  const bool is_root = plan_.rank == 0;
  error = finish(true);
  if (error.empty() && !was_published && is_root)
    error = "other ranks have not written their parts of " + plan_.path.string() +
            ", so the checkpoint before it stays the newest; look for the error of another rank";
  if (!error.empty()) std::fprintf(stderr, "cubist: rank %d: %s\n", plan_.rank, error.c_str());
}

CUBIST_INLINE BackgroundFile::Rest BackgroundSave::make_rest()
{
  // The thread's processor time, so that a thread that waits for a core or the disk rests no
  // longer.
  const auto computed = [] {
    timespec time = {};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::chrono::seconds{time.tv_sec} + std::chrono::nanoseconds{time.tv_nsec};
  };
  return [this, computed, last = computed()]() mutable {
    std::unique_lock lock{mutex_};
    changed_.wait_for(lock, rest_to_work_ * (computed() - last), [this] { return is_awaited_; });
    last = computed();
  };
}

CUBIST_INLINE void BackgroundSave::write_part(const BackgroundFile::Rest& rest)
{
  if (!file_) file_ = std::make_unique<File>(part_of(plan_.path).string(), File::Mode::write);
  if (plan_.wait_for_copy) plan_.wait_for_copy();
  sums_.assign(plan_.writes.size(), 0);
  for (std::size_t i = 0; i < sums_.size(); ++i)
    if (plan_.writes[i]) sums_[i] = plan_.writes[i](*file_, rest);
}

CUBIST_INLINE void BackgroundSave::write_mark() const
{
  std::vector<std::uint64_t> mark{sums_};
  mark.push_back(seal_of(sums_, plan_.number));
  File file{marks(), File::Mode::write};
  file.write(mark_begin(plan_.rank), std::as_bytes(std::span{mark}));
  file.sync();
}

CUBIST_INLINE bool BackgroundSave::read_mark(int rank, std::vector<std::uint64_t>& sums) const
{
  std::vector<std::uint64_t> mark(sums.size() + 1);
  // Only a file that is opened again shows what other hosts have synced.
  const File file{marks(), File::Mode::read};
  file.read(mark_begin(rank), std::as_writable_bytes(std::span{mark}));
  const auto terms = std::span<const std::uint64_t>{mark}.first(sums.size());
  if (mark.back() != seal_of(terms, plan_.number)) return false;
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += terms[i];
  return true;
}

CUBIST_INLINE void BackgroundSave::publish(const std::stop_token& stop)
{
  using namespace std::chrono_literals;
  const auto require_name = [this] {
    require<DataError>(file_->has_its_name(), file_->path(),
                       " was removed or replaced while it was written, so the checkpoint is lost; "
                       "let no other program use its folder");
  };
  std::vector<std::uint64_t> sums{sums_};
  auto pause = 1ms;
  for (int rank = 1; rank < plan_.ranks;)
  {
    require_name();
    if (read_mark(rank, sums))
    {
      ++rank;
      continue;
    }
    std::unique_lock lock{mutex_};
    if (changed_.wait_for(lock, stop, pause, [&] { return stop.stop_requested(); })) return;
    pause = std::min(2 * pause, 100ms);
  }
  const std::string start = format_with_fingerprints(plan_.header, sums);
  file_->write(0, std::as_bytes(std::span{start}));
  file_->sync();
  require_name();
  rename_durably(file_->path(), plan_.path);
  plan_.published();
}

CUBIST_INLINE void BackgroundSave::run(const std::stop_token& stop, bool writes_first)
{
  // The thread takes only cores that are free. On Linux, each thread has its own niceness; the
  // system limits it to 19.
  const auto thread = static_cast<id_t>(::gettid());
  (void)::setpriority(PRIO_PROCESS, thread, ::getpriority(PRIO_PROCESS, thread) + 10);
  const auto is_well = [this] {
    const std::lock_guard lock{mutex_};
    return error_.empty();
  };
  const auto set = [this](bool& what) {
    const std::lock_guard lock{mutex_};
    what = true;
    changed_.notify_all();
  };
  if (is_well())
    keep_error([&] {
      if (!writes_first) write_part(make_rest());
      file_->sync();
      if (plan_.rank != 0) write_mark();
    });
  set(has_part_);
  if (is_well() && plan_.rank == 0) keep_error([&] { publish(stop); });
  std::error_code ignored;
  if (plan_.rank == 0)
  {
    if (!is_renamed()) std::filesystem::remove(file_->path(), ignored);
    if (plan_.ranks > 1) std::filesystem::remove(marks(), ignored);
  }
  set(is_done_);
}

}  // namespace cubist::CUBIST_ABI::detail
