// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// What the NCCL communicators of one rank share: how they are made and left, and how their calls
// are ordered with the stream that the rank computes on.
//
// A call that is waited for is not complete on the host: the compute stream waits for it. So the
// host runs ahead of its device; but not by more than `run_ahead` calls of a communicator, or CUDA
// might stop it where nobody looks for errors.

#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include "cubist/comm/backoff.hpp"
#include "cubist/comm/nccl/call.hpp"
#include "cubist/comm/nccl/handle.hpp"
#include "cubist/comm/nccl/queue.hpp"
#include "cubist/comm/nccl/watchdog.hpp"
#include "cubist/core/error.hpp"
#include "cubist/device/stream.hpp"

namespace cubist::detail
{

class NcclWorld
{
 public:
  using State = NcclMember::State;

  static constexpr std::size_t run_ahead = 32;

  NcclWorld(int device, NcclOptions options) : watch_{std::move(options)}
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
    if (std::uncaught_exceptions() > 0) watch_.abort("the rank left by an exception");
    if (watch_.failed()) return;
    try
    {
      watch_.attempt([&] {
        watch_.until([this] { return reap(); }, [] { return "the end of its communicators"; });
      });
    }
    catch (...)
    {  // They are aborted.
    }
  }

  [[nodiscard]] cudaStream_t stream() const { return watch_.stream(); }

  /// A communicator that `begin(ncclComm_t*, ncclConfig_t*)` makes.
  /// @throws CommunicationError, PeerFailed, TimeLimitError
  template <class Begin, class Doing>
  NcclQueue& open(Begin begin, Doing doing)
  {
    return watch_.attempt([&]() -> NcclQueue& {
      reap();
      auto& queue = watch_.add(scratch_.get() + 2 * (opened_++ % scratch_rooms));
      auto& handle = queue.handle();
      auto config = NcclHandle::config();
      begin(handle.room(), &config);
      watch_.until([&] { return handle.is_settled(doing); }, doing);
      int rank = 0;
      int size = 0;
      nccl_check(ncclCommUserRank(handle.get(), &rank), "ncclCommUserRank", handle.get(), doing);
      nccl_check(ncclCommCount(handle.get(), &size), "ncclCommCount", handle.get(), doing);
      queue.set_place(rank, size);
      return queue;
    });
  }

  /// @throws CommunicationError, PeerFailed, TimeLimitError
  NcclQueue& split(NcclQueue& parent, int colour, int key)
  {
    const auto doing = [&] {
      return "a split on rank " + std::to_string(parent.place().rank) + " of " +
             std::to_string(parent.place().size);
    };
    return open(
        [&](ncclComm_t* room, ncclConfig_t* config) {
          // NCCL splits only what has nothing under way.
          parent.close_group();
          watch_.until([&] { return parent.is_idle(); });
          const auto comm = parent.handle().get();
          nccl_check(ncclCommSplit(comm, colour, key, room, config), "ncclCommSplit", comm, doing);
          watch_.until([&] { return parent.handle().is_settled(doing); }, doing);
        },
        doing);
  }

  /// The rank does not use the communicator any more. It does not wait for others to say so.
  void retire(NcclQueue& queue) noexcept
  {
    if (watch_.failed()) return;
    if (queue.has_queued() || !queue.handle().finalize())
      return watch_.abort("a communicator could not be finalized");
    retired_.push_back(&queue);
  }

  /// @throws CommunicationError, PeerFailed, TimeLimitError
  NcclMember& start(NcclQueue& queue, const NcclCall& call)
  {
    return watch_.attempt([&]() -> NcclMember& {
      watch_.until([&] { return queue.under_way() < run_ahead; });
      return queue.start(call, stream());
    });
  }

  /// Lets the compute stream wait for a call; after a barrier, all ranks have come to it.
  /// @throws CommunicationError, PeerFailed, TimeLimitError
  void wait(NcclQueue& queue, NcclMember& member)
  {
    watch_.attempt([&] {
      queue.close_group(member);
      watch_.until([&] { return member.state >= State::under_way; });
      if (member.call.collective == Collective::barrier)
        watch_.until([&] { return member.state == State::complete; });
      else if (member.state == State::under_way)
        cuda_check(cudaStreamWaitEvent(stream(), member.done.get(), 0), "cudaStreamWaitEvent",
                   [&] { return queue.text(member); });
    });
  }

  /// Whether a call is complete.
  /// @throws CommunicationError, PeerFailed, TimeLimitError
  bool test(NcclQueue& queue, NcclMember& member)
  {
    return watch_.attempt([&] {
      queue.close_group(member);
      if (member.state != State::complete) watch_.look();
      return member.state == State::complete;
    });
  }

  /// The request of a call is dropped: unless the call is complete, its buffers are about to go.
  void drop(NcclQueue& queue, NcclMember& member) noexcept
  {
    try
    {
      if (!watch_.failed() && !test(queue, member))
        watch_.abort("this rank dropped the request of its " + queue.text(member) +
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
    try
    {
      watch_.attempt([&] {
        watch_.until([&] {
          const cudaError_t code = cudaStreamQuery(stream());
          if (code != cudaErrorNotReady)
            cuda_check(code, "cudaStreamQuery", [] { return "the compute stream"; });
          return code == cudaSuccess;
        });
      });
    }
    catch (...)
    {
      drain();
      throw;
    }
  }

 private:
  static constexpr std::size_t scratch_rooms = 1024;

  /// Waits, but not for ever, for what is behind calls that were aborted: a copy to the host would
  /// else write to memory that has gone with the error.
  void drain() const
  {
    using namespace std::chrono_literals;
    for (Backoff backoff; cudaStreamQuery(stream()) == cudaErrorNotReady; backoff.pause())
      if (backoff.waited() > 10s) return;
  }

  struct Free
  {
    void operator()(int* p) const { cudaFree(p); }
  };

  /// Frees the communicators that all ranks have left; says whether none is left over.
  bool reap()
  {
    std::erase_if(retired_, [this](NcclQueue* retired) {
      if (!retired->handle().is_settled([] { return "the end of a communicator"; })) return false;
      retired->handle().destroy();
      watch_.remove(*retired);
      return true;
    });
    return retired_.empty();
  }

  std::unique_ptr<int, Free> scratch_;
  std::size_t opened_ = 0;
  NcclWatchdog watch_;
  std::vector<NcclQueue*> retired_;
};

}  // namespace cubist::detail
