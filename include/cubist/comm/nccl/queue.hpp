// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// One NCCL communicator, its stream, and the calls that its rank has started.
//
// A call waits for the earlier work of the compute stream, and has four states:
//
//   queued       an earlier call is in progress (ncclInProgress), or the group of a message is open
//   issuing      issued to NCCL
//   in flight    launched by NCCL; the event `done` marks its end in the stream
//   complete
//
// While the compute stream is captured (as a CUDA graph), the calls are captured too, and complete
// as soon as they are issued: there is nothing on the device to poll for.
//
// Collectives are issued one by one, in order. NCCL runs the calls of a communicator one after the
// other, so a lone receive would block the send after it, and with it the peer that waits for that
// send. So messages are collected until the rank waits for one of them, and are then issued as one
// group, in which they run concurrently.

#include <algorithm>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>

#include "cubist/comm/backoff.hpp"
#include "cubist/comm/nccl/call.hpp"
#include "cubist/comm/nccl/handle.hpp"
#include "cubist/comm/nccl/memory.hpp"
#include "cubist/comm/nccl/window.hpp"
#include "cubist/cuda/stream.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// A call and its progress.
struct PendingNcclCall
{
  enum class State
  {
    queued,
    issuing,
    in_flight,
    complete
  };

  NcclCall call;
  NcclCall issued;  // the same call, perhaps with its buffers in the communicator's window
  CudaEvent ready;  // reached by the compute stream
  CudaEvent done;
  State state = State::complete;
  bool has_request = false;
  bool captured = false;
  std::optional<Backoff::Clock::time_point> wait_start = {};  // when it was first seen waiting
};

/// Whether the work of a stream is captured instead of executed.
[[nodiscard]] inline bool is_captured(cudaStream_t stream)
{
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cuda_check(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing",
             [] { return "the compute stream"; });
  return status != cudaStreamCaptureStatusNone;
}

class NcclQueue
{
 public:
  using State = PendingNcclCall::State;

  /// @param memory the memory of the buffers that calls use; null if it is not registered
  explicit NcclQueue(int* scratch, std::shared_ptr<NcclMemory> memory = {})
      : registrations_{std::move(memory)}
  {
    rank_.scratch = scratch;
  }

  /// The caller creates the communicator in the handle, and then sets this rank.
  [[nodiscard]] NcclHandle& handle() { return handle_; }
  void set_rank(int rank, int size)
  {
    rank_.rank = rank;
    rank_.size = size;
    rank_.stream = stream_.get();
  }
  [[nodiscard]] const NcclRank& rank_info() const { return rank_; }
  [[nodiscard]] NcclWindow& window() { return window_; }

  /// @throws ArgumentError, CommunicationError
  PendingNcclCall& start(const NcclCall& call, cudaStream_t compute)
  {
    if (!call.is_empty() && call.send != reinterpret_cast<const std::byte*>(rank_.scratch))
      registrations_.check(call, [&] { return NcclIssuer{nullptr, rank_, call}.describe(); });
    auto& pending = take_free();
    pending.call = call;
    pending.has_request = true;
    pending.wait_start.reset();
    pending.captured = false;
    if (call.is_empty()) return pending;
    pending.captured = is_captured(compute);
    cuda_check(cudaEventRecord(pending.ready.get(), compute), "cudaEventRecord", describe(pending));
    pending.state = State::queued;
    if (call.is_message())
      messages_.push_back(&pending);
    else
      queued_.push_back({&pending});
    advance();
    return pending;
  }

  /// Closes the group of messages, but only if `pending` is one of them, because all ranks must
  /// agree on the order of groups and collectives.
  void close_group(const PendingNcclCall& pending)
  {
    if (std::find(messages_.begin(), messages_.end(), &pending) != messages_.end()) close_group();
  }
  void close_group()
  {
    if (!messages_.empty()) queued_.push_back(std::exchange(messages_, {}));
  }

  /// Issues the calls that NCCL accepts, and marks those that are complete.
  /// @throws CommunicationError, PeerFailed for an asynchronous error of NCCL
  void advance()
  {
    if (is_idle()) return;
    if (handle_.is_ready([this] { return current_text(); }))
    {
      mark_in_flight();
      while (!queued_.empty() && issuing_.empty()) issue();
    }
    while (!in_flight_.empty() &&
           is_complete(in_flight_.front()->done, describe(*in_flight_.front())))
    {
      finish(*in_flight_.front());
      in_flight_.pop_front();
    }
  }

  /// Whether all calls that were started are complete.
  [[nodiscard]] bool is_idle() const { return !has_queued() && in_flight_.empty(); }
  /// Whether a call that was started is not in flight yet.
  [[nodiscard]] bool has_queued() const
  {
    return !messages_.empty() || !queued_.empty() || !issuing_.empty();
  }
  [[nodiscard]] std::size_t in_flight() const { return in_flight_.size(); }

  /// Starts to finalize the communicator; if memory is registered, only once all calls are
  /// complete.
  /// @pre !has_queued()
  /// @returns whether it has started
  /// @throws CommunicationError
  bool finalize()
  {
    if (is_finalized_) return true;
    if ((!registrations_.empty() || window_.is_open()) && !is_idle()) return false;
    registrations_.clear(handle_.get());
    window_.close(handle_.get());
    require<CommunicationError>(handle_.finalize(), "ncclCommFinalize failed for ", current_text(),
                                ", so its calls may not end; look for an earlier error of NCCL");
    return is_finalized_ = true;
  }

  /// Releases a call whose request has ended.
  void release(PendingNcclCall& pending)
  {
    pending.has_request = false;
    if (pending.state == State::complete) free_.push_back(&pending);
  }

  using Wait = std::pair<const PendingNcclCall*, Backoff::Clock::time_point>;

  /// The call that has waited longest for other ranks, and since when. Time in which the compute
  /// stream of this rank has not reached the call does not count.
  [[nodiscard]] std::optional<Wait> oldest_wait()
  {
    auto* const first = !in_flight_.empty() ? in_flight_.front()
                        : !issuing_.empty() ? issuing_.front()
                                            : nullptr;
    if (first == nullptr) return {};
    if (!first->wait_start)
    {
      if (!first->captured && !is_complete(first->ready, describe(*first))) return {};
      first->wait_start = Backoff::Clock::now();
    }
    return Wait{first, *first->wait_start};
  }

  /// Returns "all_reduce of 4 double by sum on rank 1 of 4".
  [[nodiscard]] std::string text(const PendingNcclCall& pending) const
  {
    return NcclIssuer{nullptr, rank_, pending.call}.describe();
  }

 private:
  struct Describe
  {
    const NcclQueue& queue;
    const PendingNcclCall& pending;
    std::string operator()() const { return queue.text(pending); }
  };
  [[nodiscard]] Describe describe(const PendingNcclCall& pending) const { return {*this, pending}; }
  /// Describes the oldest call that is not complete.
  [[nodiscard]] std::string current_text() const
  {
    if (!in_flight_.empty()) return text(*in_flight_.front());
    if (!issuing_.empty()) return text(*issuing_.front());
    if (!queued_.empty()) return text(*queued_.front().front());
    return rank_.text();
  }

  /// Issues the first collective or group, which may stay in the state `issuing`.
  void issue()
  {
    issuing_ = std::move(queued_.front());
    queued_.pop_front();
    const auto comm = handle_.get();
    registrations_.update(comm, describe(*issuing_.front()));
    for (auto* const pending : issuing_)
    {
      pending->state = State::issuing;
      cuda_check(cudaStreamWaitEvent(stream_.get(), pending->ready.get(), 0), "cudaStreamWaitEvent",
                 describe(*pending));
      pending->issued =
          window_.takes(pending->call, rank_.size)
              ? window_.copy_in(pending->call, rank_.size, stream_.get(), describe(*pending))
              : pending->call;
    }
    {
      NcclGroupScope group{describe(*issuing_.front())};
      for (auto* const pending : issuing_) NcclIssuer{comm, rank_, pending->issued}();
      group.end();
    }
    if (handle_.is_ready(describe(*issuing_.front()))) mark_in_flight();
  }

  void mark_in_flight()
  {
    for (auto* const pending : issuing_)
    {
      if (window_.takes(pending->call, rank_.size))
        window_.copy_out(pending->call, rank_.size, stream_.get(), describe(*pending));
      cuda_check(cudaEventRecord(pending->done.get(), stream_.get()), "cudaEventRecord",
                 describe(*pending));
      pending->state = State::in_flight;
      if (pending->captured)
        finish(*pending);
      else
        in_flight_.push_back(pending);
    }
    issuing_.clear();
  }

  void finish(PendingNcclCall& pending)
  {
    pending.state = State::complete;
    if (!pending.has_request) free_.push_back(&pending);
  }

  PendingNcclCall& take_free()
  {
    if (free_.empty()) free_.push_back(calls_.emplace_back(new PendingNcclCall).get());
    auto& pending = *free_.back();
    free_.pop_back();
    return pending;
  }

  NcclRank rank_;
  CudaStream stream_;
  std::vector<std::unique_ptr<PendingNcclCall>> calls_;
  std::vector<PendingNcclCall*> free_;
  std::vector<PendingNcclCall*> messages_;            // the messages of the open group
  std::deque<std::vector<PendingNcclCall*>> queued_;  // each a collective, or a group of messages
  std::vector<PendingNcclCall*> issuing_;
  std::deque<PendingNcclCall*> in_flight_;
  NcclRegistrations registrations_;
  NcclWindow window_;
  bool is_finalized_ = false;
  NcclHandle handle_;  // destroyed first: no call runs in the stream after that
};

}  // namespace cubist::CUBIST_ABI::detail
