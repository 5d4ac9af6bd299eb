// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Waits for NCCL on the host, and aborts all communicators of a rank together.
//
// The host waits by polling. Each poll checks all communicators of the rank for asynchronous errors
// of NCCL, the time limit, and failures of other ranks that the program knows of. An error aborts
// all communicators of the rank. If NCCL does not report that to the peers, their time limits end
// them.

#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include "cubist/comm/backoff.hpp"
#include "cubist/comm/nccl/memory.hpp"
#include "cubist/comm/nccl/queue.hpp"
#include "cubist/comm/nccl/replays.hpp"
#include "cubist/comm/wait_time.hpp"
#include "cubist/core/error.hpp"

namespace cubist::CUBIST_ABI
{

/// Options of a rank that communicates by NCCL.
struct NcclOptions
{
  /// The compute stream, which produces what is sent and consumes what is received.
  cudaStream_t stream = cudaStreamPerThread;
  /// How long the rank waits for others, in a call or at the end, before it throws TimeLimitError;
  /// nullopt means for ever. NCCL alone does not detect every rank that has ended.
  std::optional<std::chrono::milliseconds> time_limit = std::chrono::minutes{10};
  /// Called repeatedly while the rank waits; throws if another rank has failed.
  std::function<void()> poll_failure = {};
  /// The memory of all buffers that are sent and received, which is registered with each
  /// communicator. Either all ranks set it, or none does (null).
  std::shared_ptr<detail::NcclMemory> memory = {};
  /// All-reduces, all-gathers and reduce-scatters of up to this many bytes over all ranks together
  /// are copied to and from a symmetric window of the communicator, if its ranks have NVLink.
  std::size_t symmetric_bytes = 0;
};

namespace detail
{

class NcclWatchdog
{
 public:
  using Clock = Backoff::Clock;

  /// @throws ArgumentError for a time limit that is not positive
  explicit NcclWatchdog(NcclOptions options)
      : options_{std::move(options)}
  {
    const auto limit = options_.time_limit;
    require<ArgumentError>(!limit || limit->count() > 0, "got a time limit of ",
                           limit ? limit->count() : 0,
                           " ms, in which no call can complete; give a longer one, or nullopt "
                           "to wait without limit");
  }

  [[nodiscard]] cudaStream_t stream() const { return options_.stream; }
  [[nodiscard]] std::size_t symmetric_bytes() const { return options_.symmetric_bytes; }

  [[nodiscard]] NcclReplays& replays() { return replays_; }

  NcclQueue& add(int* scratch)
  {
    return *queues_.emplace_back(std::make_unique<NcclQueue>(scratch, options_.memory));
  }
  void remove(const NcclQueue& queue)
  {
    std::erase_if(queues_, [&](const auto& q) { return q.get() == &queue; });
  }

  [[nodiscard]] bool is_aborted() const { return !reason_.empty(); }
  /// Aborts all communicators of this rank, which ends their kernels on the device.
  void abort(const std::string& why) noexcept
  {
    if (is_aborted()) return;
    reason_ = why;
    // All aborts are in one group, because an abort alone may wait for a kernel that another abort
    // would end.
    ncclGroupStart();
    for (const auto& queue : queues_) queue->handle().abort();
    ncclGroupEnd();
  }

  /// Calls `f`, and aborts all communicators of the rank if it throws.
  /// @throws CommunicationError if they are aborted already
  template <class F>
  std::invoke_result_t<F&> abort_on_error(F f)
  {
    require<CommunicationError>(
        !is_aborted(), "got a call after the communicators of this rank were aborted (", reason_,
        "), so none of them can carry data; fix that error, and return from the rank's body");
    try
    {
      return f();
    }
    catch (const std::exception& e)
    {
      abort(e.what());
      throw;
    }
    catch (...)
    {
      abort("an unknown exception");
      throw;
    }
  }

  /// Polls until `done()`.
  /// @throws CommunicationError, PeerFailed, TimeLimitError, what NcclOptions::poll_failure throws
  template <class Done>
  void wait_until(Done done)
  {
    // Sleeping for a quarter of the time waited so far would lengthen a step by an eighth on
    // average. After 20 ms, a sleep is short compared with the step.
    for (Backoff backoff{std::chrono::milliseconds{20}}; !done();)
    {
      const bool is_waiting = poll();
      if (done()) return;
      std::optional<WaitTimer> timer;
      if (is_waiting) timer.emplace();
      backoff.pause();
    }
  }
  /// Waits for an operation that is not a call of a queue; the time limit begins now.
  template <class Done>
  void wait_until(Done done, NcclText describe)
  {
    const auto start = Clock::now();
    wait_until([&] {
      if (done()) return true;
      check_time_limit(start, describe);
      return false;
    });
  }

  /// Advances all queues, and checks for errors, the time limit and failures of other ranks.
  /// Returns whether a call waits for other ranks.
  bool poll()
  {
    bool any = false;
    for (const auto& queue : queues_)
    {
      queue->advance();
      const auto wait = queue->oldest_wait();
      if (!wait) continue;
      any = true;
      check_time_limit(wait->second, [&] { return queue->text(*wait->first); });
    }
    if (const auto wait = replays_.oldest_wait())
    {
      any = true;
      check_time_limit(wait->second, [&] { return std::string{wait->first}; });
    }
    if (options_.poll_failure) options_.poll_failure();
    return any;
  }

 private:
  void check_time_limit(Clock::time_point start, NcclText describe) const
  {
    const auto limit = options_.time_limit;
    if (!limit || Clock::now() - start < *limit) return;
    require<TimeLimitError>(false, "waited ", limit->count(), " ms for other ranks in ", describe(),
                            ", which is the time limit, so one of them has ended or makes another "
                            "call; look for its error, or give a longer time limit");
  }

  NcclOptions options_;
  std::string reason_;  // why the communicators were aborted
  NcclReplays replays_;
  std::vector<std::unique_ptr<NcclQueue>> queues_;
};

}  // namespace detail
}  // namespace cubist::CUBIST_ABI
