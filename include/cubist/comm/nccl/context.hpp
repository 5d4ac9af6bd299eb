// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// What the NCCL communicators of one rank share: how they are created and destroyed, and how their
// calls are ordered with the compute stream.
//
// A wait for a call makes the compute stream wait, not the host, so the host runs ahead of the
// device. It is ahead by at most `max_in_flight` calls of a communicator, because CUDA may block a
// host thread that enqueues more, and a blocked thread does not poll for errors.

#include <chrono>
#include <cstddef>
#include <cstdio>
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
#include "cubist/cuda/stream.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// @throws CommunicationError, PeerFailed, TimeLimitError from every function that is not noexcept
class NcclContext
{
 public:
  using State = PendingNcclCall::State;

  static constexpr std::size_t max_in_flight = 32;

  NcclContext(int device, NcclOptions options)
      : watchdog_{std::move(options)}
  {
    const auto describe = [&] { return "device " + std::to_string(device); };
    cuda_check(cudaSetDevice(device), "cudaSetDevice", describe);
    void* scratch = nullptr;
    cuda_check(cudaMalloc(&scratch, scratch_slots * 2 * sizeof(int)), "cudaMalloc", describe);
    scratch_.reset(static_cast<int*>(scratch));
  }
  NcclContext(NcclContext&&) = delete;
  /// Waits until all ranks have released the communicators.
  ~NcclContext()
  {
    if (std::uncaught_exceptions() > 0) watchdog_.abort("the rank ended by an exception");
    if (watchdog_.is_aborted()) return;
    try
    {
      watchdog_.abort_on_error([&] {
        watchdog_.wait_until([this] { return destroy_finalized(); },
                             [] { return "the end of its communicators"; });
      });
    }
    catch (...)
    {  // The communicators are aborted.
    }
  }

  [[nodiscard]] cudaStream_t stream() const { return watchdog_.stream(); }

  /// Creates a communicator with `begin(ncclComm_t*, ncclConfig_t*)`.
  template <class Begin>
  NcclQueue& create(Begin begin, NcclText describe)
  {
    return watchdog_.abort_on_error([&]() -> NcclQueue& {
      destroy_finalized();
      auto& queue = watchdog_.add(scratch_.get() + 2 * (created_++ % scratch_slots));
      auto& handle = queue.handle();
      auto config = NcclHandle::config();
      begin(handle.address(), &config);
      watchdog_.wait_until([&] { return handle.is_ready(describe); }, describe);
      int rank = 0;
      int size = 0;
      nccl_check(ncclCommUserRank(handle.get(), &rank), "ncclCommUserRank", handle.get(), describe);
      nccl_check(ncclCommCount(handle.get(), &size), "ncclCommCount", handle.get(), describe);
      queue.set_rank(rank, size);
      return queue;
    });
  }

  /// @throws CaptureError while the compute stream is captured
  NcclQueue& split(NcclQueue& parent, int colour, int key)
  {
    require<CaptureError>(!is_captured(stream()),
                          "got a split of a communicator in a step that is captured, but a split "
                          "cannot be replayed; make meshes and communicators before the step");
    const auto describe = [&] { return "a split on " + parent.rank_info().text(); };
    return create(
        [&](ncclComm_t* child, ncclConfig_t* config) {
          // NCCL splits only an idle communicator.
          parent.close_group();
          watchdog_.wait_until([&] { return parent.is_idle(); });
          const auto comm = parent.handle().get();
          nccl_check(ncclCommSplit(comm, colour, key, child, config), "ncclCommSplit", comm,
                     describe);
          watchdog_.wait_until([&] { return parent.handle().is_ready(describe); }, describe);
        },
        describe);
  }

  [[nodiscard]] bool wants_windows() const { return watchdog_.symmetric_bytes() > 0; }
  /// Registers a communicator's window, together with its other ranks.
  void open_window(NcclQueue& queue)
  {
    const auto describe = [&] { return "the symmetric window of " + queue.rank_info().text(); };
    watchdog_.abort_on_error([&] {
      watchdog_.wait_until([&] { return queue.is_idle() && queue.handle().is_ready(describe); });
      queue.window().begin(queue.handle().get(), watchdog_.symmetric_bytes(), describe);
      watchdog_.wait_until([&] { return queue.handle().is_ready(describe); }, describe);
    });
  }
  void close_window(NcclQueue& queue)
  {
    watchdog_.abort_on_error([&] { queue.window().close(queue.handle().get()); });
  }
  /// Prints, once for this rank, that there are no windows.
  void warn_of_missing_windows(const NcclRank& ranks)
  {
    if (std::exchange(warned_, true)) return;
    std::fprintf(stderr,
                 "cubist: symmetric_bytes was requested, but NCCL has no symmetric window for a "
                 "communicator of %d ranks, which needs NCCL 2.27 and NVLink between them. Their "
                 "collectives use NCCL's other kernels instead.\n",
                 ranks.size);
  }

  /// Starts ending a communicator that this rank has released; does not wait for other ranks.
  void finalize(NcclQueue& queue) noexcept
  {
    if (watchdog_.is_aborted()) return;
    if (queue.has_queued()) return watchdog_.abort("a communicator ended before its calls started");
    try
    {
      queue.finalize();
      finalizing_.push_back(&queue);
    }
    catch (const std::exception& e)
    {
      watchdog_.abort(e.what());
    }
  }

  PendingNcclCall& start(NcclQueue& queue, const NcclCall& call)
  {
    return watchdog_.abort_on_error([&]() -> PendingNcclCall& {
      watchdog_.wait_until([&] { return queue.in_flight() < max_in_flight; });
      auto& pending = queue.start(call, stream());
      // NCCL may add a collective to a graph from its own thread, and graphs are not thread-safe,
      // so this thread captures nothing else until it has.
      if (pending.captured && !call.is_message())
        watchdog_.wait_until([&] { return pending.state >= State::in_flight; });
      return pending;
    });
  }

  /// Makes the compute stream wait for a call. A barrier waits on the host.
  void wait(NcclQueue& queue, PendingNcclCall& pending)
  {
    watchdog_.abort_on_error([&] {
      queue.close_group(pending);
      watchdog_.wait_until([&] { return pending.state >= State::in_flight; });
      if (pending.call.kind == CallKind::barrier && !pending.captured)
        watchdog_.wait_until([&] { return pending.state == State::complete; });
      else if (pending.state == State::in_flight || pending.captured)
        cuda_check(cudaStreamWaitEvent(stream(), pending.done.get(), 0), "cudaStreamWaitEvent",
                   [&] { return queue.text(pending); });
    });
  }

  /// Whether a call is complete.
  bool test(NcclQueue& queue, PendingNcclCall& pending)
  {
    return watchdog_.abort_on_error([&] {
      queue.close_group(pending);
      if (pending.state != State::complete) watchdog_.poll();
      return pending.state == State::complete;
    });
  }

  /// Releases a call whose request is destroyed. Aborts unless the call is complete, because the
  /// caller may free its buffers.
  void drop(NcclQueue& queue, PendingNcclCall& pending) noexcept
  {
    try
    {
      if (!watchdog_.is_aborted() && !test(queue, pending))
        watchdog_.abort("this rank dropped the request of its " + queue.text(pending) +
                        " before it was complete");
    }
    catch (...)
    {  // The communicators are aborted.
    }
    queue.release(pending);
  }

  /// Calls `launch`, which enqueues captured work on the compute stream. Its calls are watched
  /// together, and the time limit counts from the start of the work.
  template <class F>
  void replay(const char* what, F launch)
  {
    watchdog_.abort_on_error([&] {
      auto& replays = watchdog_.replays();
      watchdog_.wait_until([&] { return replays.in_flight() < max_in_flight; });
      replays.start(what, stream(), launch);
    });
  }

  /// Waits on the host until the compute stream is idle, and with it all calls that were waited
  /// for.
  void synchronize()
  {
    try
    {
      watchdog_.abort_on_error([&] {
        watchdog_.wait_until([&] {
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
  static constexpr std::size_t scratch_slots = 1024;

  /// Waits at most 10 s for the work that is queued after aborted calls: a copy to the host could
  /// otherwise write to memory that the error has freed.
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

  /// Destroys the communicators that all ranks have finalized.
  /// @returns whether none is pending
  bool destroy_finalized()
  {
    std::erase_if(finalizing_, [this](NcclQueue* finalizing) {
      if (!finalizing->finalize() ||
          !finalizing->handle().is_ready([] { return "the end of a communicator"; }))
        return false;
      finalizing->handle().destroy();
      watchdog_.remove(*finalizing);
      return true;
    });
    return finalizing_.empty();
  }

  std::unique_ptr<int, Free> scratch_;
  std::size_t created_ = 0;
  bool warned_ = false;
  NcclWatchdog watchdog_;
  std::vector<NcclQueue*> finalizing_;
};

}  // namespace cubist::CUBIST_ABI::detail
