// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// How a rank waits for NCCL, and how its communicators end together.
//
// Whatever the host waits for, it polls, and looks at every communicator of the rank meanwhile: for
// NCCL's errors, for the time limit, and for what the program knows of other ranks. An error aborts
// all of them, which ends what runs on the device: none is left half alive. Its peers see that,
// where NCCL does not tell them, by their own time limits.

#include <algorithm>
#include <chrono>
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
#include "cubist/comm/nccl/queue.hpp"
#include "cubist/core/error.hpp"

namespace cubist
{

/// How a rank communicates by NCCL.
struct NcclOptions
{
  /// The stream that computes what is sent, and with what was received.
  cudaStream_t stream = cudaStreamPerThread;
  /// The longest that the rank may wait for others, in a call or on its way out; then it throws
  /// TimeLimitError. NCCL alone does not notice every rank that is gone. Left out, it waits for
  /// ever.
  std::optional<std::chrono::milliseconds> time_limit = std::chrono::minutes{10};
  /// Called now and then while the rank waits; throws if the job has failed elsewhere.
  std::function<void()> look = {};
};

namespace detail
{

class NcclWatchdog
{
 public:
  using Clock = Backoff::Clock;

  /// @throws ArgumentError for a time limit that is not positive
  explicit NcclWatchdog(NcclOptions options) : options_{std::move(options)}
  {
    const auto limit = options_.time_limit;
    require<ArgumentError>(!limit || limit->count() > 0, "got a time limit of ",
                           limit ? limit->count() : 0,
                           " ms, in which no call can be complete; give a longer one, or leave it "
                           "out to wait for ever");
  }

  [[nodiscard]] cudaStream_t stream() const { return options_.stream; }

  NcclQueue& add(int* scratch)
  {
    return *queues_.emplace_back(std::make_unique<NcclQueue>(scratch));
  }
  void remove(const NcclQueue& queue)
  {
    std::erase_if(queues_, [&](const auto& q) { return q.get() == &queue; });
  }

  [[nodiscard]] bool failed() const { return !why_.empty(); }
  /// Ends what runs on the device. No communicator of this rank can be used any more.
  void abort(const std::string& why) noexcept
  {
    if (failed()) return;
    why_ = why;
    // One at a time, an abort may wait for what another one would end.
    ncclGroupStart();
    for (const auto& queue : queues_) queue->handle().abort();
    ncclGroupEnd();
  }

  /// Calls `f`; what it throws ends all communicators of the rank.
  /// @throws CommunicationError if they have ended
  template <class F>
  std::invoke_result_t<F&> attempt(F f)
  {
    require<CommunicationError>(
        !failed(), "got a call after the communicators of this rank were aborted (", why_,
        "), so none of them carries data any more; mend that, and leave the body of the rank");
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

  /// Waits until `done()`.
  /// @throws CommunicationError, PeerFailed, TimeLimitError, what NcclOptions::look throws
  template <class Done>
  void until(Done done)
  {
    for (Backoff backoff; !done(); backoff.pause())
    {
      look();
      if (done()) return;
    }
  }
  /// The same for what is no call, which has a time limit of its own.
  template <class Done, class Doing>
  void until(Done done, Doing doing)
  {
    const auto began = Clock::now();
    until([&] {
      if (done()) return true;
      check_time(began, doing);
      return false;
    });
  }

  void look()
  {
    for (const auto& queue : queues_)
    {
      queue->advance();
      if (const auto awaited = queue->awaited())
        check_time(awaited->second, [&] { return queue->text(*awaited->first); });
    }
    if (options_.look) options_.look();
  }

 private:
  template <class Doing>
  void check_time(Clock::time_point began, Doing doing) const
  {
    const auto limit = options_.time_limit;
    if (!limit || Clock::now() - began < *limit) return;
    require<TimeLimitError>(false, "waited ", limit->count(), " ms for other ranks in ", doing(),
                            ", the time limit, so one of them is gone or calls something else; "
                            "look for its error, or give a longer time limit");
  }

  NcclOptions options_;
  std::string why_;  // they were aborted
  std::vector<std::unique_ptr<NcclQueue>> queues_;
};

}  // namespace detail
}  // namespace cubist
