// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// What the NCCL communicators of one rank share: its device, the stream that it computes on, how it
// waits, and how its communicators end.
//
// A call that is waited for is not complete on the host: the compute stream waits for it. So the
// host runs ahead of its device; but not by more than `run_ahead` calls of a communicator, or CUDA
// might stop it where nobody looks for errors. Whatever the host does wait for, it polls, and looks
// at every communicator meanwhile: for NCCL's errors, for the time limit, and for what the program
// says of other ranks. An error aborts all communicators of the rank, which ends what runs on the
// device: none is left half alive, and its peers see the same within their time limits.

#include <algorithm>
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

#include "cubist/comm/cuda_stream.hpp"
#include "cubist/comm/nccl_call.hpp"
#include "cubist/comm/nccl_queue.hpp"
#include "cubist/comm/patience.hpp"
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

class NcclWorld
{
 public:
  using State = NcclMember::State;

  static constexpr std::size_t run_ahead = 32;

  NcclWorld(int device, NcclOptions options) : options_{std::move(options)}
  {
    const auto doing = [&] { return "device " + std::to_string(device); };
    cuda_check(cudaSetDevice(device), "cudaSetDevice", doing);
    void* scratch = nullptr;
    cuda_check(cudaMalloc(&scratch, scratch_rooms * 2 * sizeof(int)), "cudaMalloc", doing);
    scratch_.reset(static_cast<int*>(scratch));
  }
  NcclWorld(const NcclWorld&) = delete;
  NcclWorld& operator=(const NcclWorld&) = delete;
  /// Waits for the other ranks to leave their communicators, too.
  ~NcclWorld()
  {
    if (std::uncaught_exceptions() > 0) abort("the rank left by an exception");
    if (failed()) return;
    try
    {
      until_settled([this] { return reap(); }, [] { return "the end of its communicators"; });
    }
    catch (...)
    {  // They are aborted.
    }
  }

  [[nodiscard]] cudaStream_t stream() const { return options_.stream; }

  /// A communicator that `begin(ncclComm_t*, ncclConfig_t*)` makes.
  /// @throws CommunicationError, PeerFailed, TimeLimitError
  template <class Begin, class Doing>
  NcclQueue& open(Begin begin, Doing doing)
  {
    return attempt([&]() -> NcclQueue& {
      reap();
      auto* const scratch = scratch_.get() + 2 * (opened_++ % scratch_rooms);
      auto& queue = *queues_.emplace_back(std::make_unique<NcclQueue>(scratch));
      auto config = NcclHandle::config();
      const auto& handle = queue.handle();
      nccl_check(begin(queue.handle().room(), &config), "the start of a communicator", nullptr,
                 doing);
      until_settled([&] { return handle.is_settled(doing); }, doing);
      int rank = 0;
      int size = 0;
      nccl_check(ncclCommUserRank(handle.get(), &rank), "ncclCommUserRank", handle.get(), doing);
      nccl_check(ncclCommCount(handle.get(), &size), "ncclCommCount", handle.get(), doing);
      queue.set_place(rank, size);
      return queue;
    });
  }

  NcclQueue& split(NcclQueue& parent, int colour, int key)
  {
    // NCCL splits only what has nothing under way.
    attempt([&] { until([&] { return parent.is_idle(); }); });
    const auto doing = [&] {
      return "a split on rank " + std::to_string(parent.place().rank) + " of " +
             std::to_string(parent.place().size);
    };
    return open(
        [&](ncclComm_t* room, ncclConfig_t* config) {
          const auto comm = parent.handle().get();
          const auto code = ncclCommSplit(comm, colour, key, room, config);
          nccl_check(code, "ncclCommSplit", comm, doing);
          until_settled([&] { return parent.handle().is_settled(doing); }, doing);
          return ncclSuccess;
        },
        doing);
  }

  /// No rank uses the communicator any more, as far as this one is concerned. It does not wait.
  void retire(NcclQueue& queue) noexcept
  {
    if (failed()) return;
    if (queue.has_queued() || !queue.handle().finalize())
      return abort("a communicator could not be finalized");
    retired_.push_back(&queue);
  }

  /// @throws CommunicationError, PeerFailed, TimeLimitError
  NcclMember& start(NcclQueue& queue, const NcclCall& call)
  {
    return attempt([&]() -> NcclMember& {
      until([&] { return queue.under_way() < run_ahead; });
      return queue.start(call, options_.stream);
    });
  }

  /// Lets the compute stream wait for a call; after a barrier, all ranks have come to it.
  /// @throws CommunicationError, PeerFailed, TimeLimitError
  void wait(NcclQueue& queue, NcclMember& member)
  {
    attempt([&] {
      queue.close_group(member);
      until([&] { return member.state >= State::under_way; });
      if (member.call.collective == Collective::barrier)
        until([&] { return member.state == State::complete; });
      else if (member.state == State::under_way)
        cuda_check(cudaStreamWaitEvent(options_.stream, member.done.get(), 0),
                   "cudaStreamWaitEvent", [&] { return queue.text(member); });
    });
  }

  /// Whether a call is complete.
  /// @throws CommunicationError, PeerFailed, TimeLimitError
  bool test(NcclQueue& queue, NcclMember& member)
  {
    return attempt([&] {
      queue.close_group(member);
      if (member.state != State::complete) look();
      return member.state == State::complete;
    });
  }

  /// The request of a call is dropped: unless the call is complete, its buffers are about to go.
  void drop(NcclQueue& queue, NcclMember& member) noexcept
  {
    try
    {
      if (!failed() && !test(queue, member))
        abort("this rank dropped the request of its " + queue.text(member) +
              " before it was complete");
    }
    catch (...)
    {  // They are aborted.
    }
    queue.leave(member);
  }

  /// Until the compute stream has done what it was given so far, with all calls that were waited
  /// for.
  /// @throws CommunicationError, PeerFailed, TimeLimitError
  void synchronize()
  {
    attempt([&] {
      until([&] {
        const cudaError_t code = cudaStreamQuery(options_.stream);
        if (code != cudaErrorNotReady)
          cuda_check(code, "cudaStreamQuery", [] { return "the compute stream"; });
        return code == cudaSuccess;
      });
    });
  }

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
  [[nodiscard]] bool failed() const { return !why_.empty(); }

 private:
  using Clock = Patience::Clock;

  static constexpr std::size_t scratch_rooms = 1024;

  struct Free
  {
    void operator()(int* p) const { cudaFree(p); }
  };

  /// An error in `f` ends all communicators of the rank.
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

  template <class Done>
  void until(Done done)
  {
    for (Patience patience; !done(); patience.pause())
    {
      look();
      if (done()) return;
    }
  }
  /// The same for what is no call.
  template <class Done, class Doing>
  void until_settled(Done done, Doing doing)
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

  template <class Doing>
  void check_time(Clock::time_point began, Doing doing) const
  {
    const auto limit = options_.time_limit;
    if (!limit || Clock::now() - began < *limit) return;
    require<TimeLimitError>(false, "waited ", limit->count(), " ms for other ranks in ", doing(),
                            ", the time limit, so one of them is gone or calls something else; "
                            "look for its error, or give a longer time limit");
  }

  /// Frees the communicators that all ranks have left; says whether none is left over.
  bool reap()
  {
    std::erase_if(retired_, [this](NcclQueue* retired) {
      if (!retired->handle().is_settled([] { return "the end of a communicator"; })) return false;
      retired->handle().destroy();
      std::erase_if(queues_, [&](const auto& queue) { return queue.get() == retired; });
      return true;
    });
    return retired_.empty();
  }

  NcclOptions options_;
  std::string why_;  // they were aborted
  std::unique_ptr<int, Free> scratch_;
  std::size_t opened_ = 0;
  std::vector<std::unique_ptr<NcclQueue>> queues_;
  std::vector<NcclQueue*> retired_;
};

}  // namespace detail
}  // namespace cubist
