// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// One communicator of NCCL with the calls that its rank has started, on a stream of its own.
//
// A call waits for what the compute stream was given before it, and goes through four states:
//
//   queued       NCCL is still busy with an earlier call (ncclInProgress), or it is a message and
//                its group is not closed
//   issuing      NCCL has it
//   under way    NCCL has launched it, and `done` marks its end in the stream
//   complete
//
// Collectives are given to NCCL one by one, in their order. NCCL runs the calls of a communicator
// one after the other, so a receive on its own would keep the send behind it from running, and
// with it the rank that waits for that. So messages gather until one of them is waited for, and
// then are given to NCCL as one group, in which all of them run at once.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include "cubist/comm/backoff.hpp"
#include "cubist/comm/nccl/call.hpp"
#include "cubist/comm/nccl/handle.hpp"
#include "cubist/core/error.hpp"
#include "cubist/device/stream.hpp"

namespace cubist::detail
{

/// A call with what the queue knows of it.
struct NcclMember
{
  enum class State
  {
    queued,
    issuing,
    under_way,
    complete
  };

  NcclCall call;
  CudaEvent ready;  // the compute stream has come to it
  CudaEvent done;
  State state = State::complete;
  bool held = false;                                     // by its request
  std::optional<Backoff::Clock::time_point> began = {};  // to wait for other ranks, as far as seen
};

class NcclQueue
{
 public:
  using State = NcclMember::State;

  explicit NcclQueue(int* scratch) { place_.scratch = scratch; }

  /// The handle to be filled by NCCL, and then this rank's place.
  [[nodiscard]] NcclHandle& handle() { return handle_; }
  void set_place(int rank, int size)
  {
    place_.rank = rank;
    place_.size = size;
    place_.stream = stream_.get();
  }
  [[nodiscard]] const NcclPlace& place() const { return place_; }

  /// @throws ArgumentError, CommunicationError
  NcclMember& start(const NcclCall& call, cudaStream_t compute)
  {
    auto& member = spare();
    member.call = call;
    member.held = true;
    member.began.reset();
    if (call.is_empty()) return member;
    cuda_check(cudaEventRecord(member.ready.get(), compute), "cudaEventRecord", doing(member));
    member.state = State::queued;
    if (call.is_message())
      messages_.push_back(&member);
    else
      queued_.push_back({&member});
    advance();
    return member;
  }

  /// The messages so far are a group. If `member` is none of them, this is no time for that: ranks
  /// must agree on the order of groups and collectives.
  void close_group(const NcclMember& member)
  {
    if (std::find(messages_.begin(), messages_.end(), &member) != messages_.end()) close_group();
  }
  void close_group()
  {
    if (!messages_.empty()) queued_.push_back(std::exchange(messages_, {}));
  }

  /// Gives NCCL what it can take, and sees what is complete.
  /// @throws CommunicationError, PeerFailed for what NCCL has met meanwhile
  void advance()
  {
    if (is_idle()) return;
    if (handle_.is_settled([this] { return first_text(); }))
    {
      launched();
      while (!queued_.empty() && issuing_.empty()) issue();
    }
    while (!under_way_.empty() && is_complete(under_way_.front()->done, doing(*under_way_.front())))
    {
      finish(*under_way_.front());
      under_way_.pop_front();
    }
  }

  /// Whether all calls that were started are complete.
  [[nodiscard]] bool is_idle() const { return !has_queued() && under_way_.empty(); }
  /// Whether NCCL has not launched all calls that were started.
  [[nodiscard]] bool has_queued() const
  {
    return !messages_.empty() || !queued_.empty() || !issuing_.empty();
  }
  [[nodiscard]] std::size_t under_way() const { return under_way_.size(); }

  /// The request is gone.
  void leave(NcclMember& member)
  {
    member.held = false;
    if (member.state == State::complete) spare_.push_back(&member);
  }

  /// The call that has waited for other ranks for longest, and since when; nothing if none does.
  /// What its own rank still computes before it is no such wait.
  [[nodiscard]] std::optional<std::pair<const NcclMember*, Backoff::Clock::time_point>> awaited()
  {
    auto* const first = !under_way_.empty() ? under_way_.front()
                        : !issuing_.empty() ? issuing_.front()
                                            : nullptr;
    if (first == nullptr) return {};
    if (!first->began)
    {
      if (!is_complete(first->ready, doing(*first))) return {};
      first->began = Backoff::Clock::now();
    }
    return std::pair{first, *first->began};
  }

  /// "all_reduce of 4 double by sum on rank 1 of 4"
  [[nodiscard]] std::string text(const NcclMember& member) const
  {
    return NcclIssue{nullptr, place_, member.call}.doing();
  }

 private:
  /// What is done, for errors.
  struct Doing
  {
    const NcclQueue& queue;
    const NcclMember& member;
    std::string operator()() const { return queue.text(member); }
  };
  [[nodiscard]] Doing doing(const NcclMember& member) const { return {*this, member}; }
  /// What NCCL is at.
  [[nodiscard]] std::string first_text() const
  {
    if (!under_way_.empty()) return text(*under_way_.front());
    if (!issuing_.empty()) return text(*issuing_.front());
    if (!queued_.empty()) return text(*queued_.front().front());
    return "rank " + std::to_string(place_.rank) + " of " + std::to_string(place_.size);
  }

  /// Gives the first call or group to NCCL. Without an answer yet, it is launched later.
  void issue()
  {
    issuing_ = std::move(queued_.front());
    queued_.pop_front();
    const auto comm = handle_.get();
    for (auto* const member : issuing_)
    {
      member->state = State::issuing;
      cuda_check(cudaStreamWaitEvent(stream_.get(), member->ready.get(), 0), "cudaStreamWaitEvent",
                 doing(*member));
    }
    {
      NcclGrouped grouped{doing(*issuing_.front())};
      for (auto* const member : issuing_) NcclIssue{comm, place_, member->call}();
      grouped.end();
    }
    if (handle_.is_settled(doing(*issuing_.front()))) launched();
  }

  void launched()
  {
    for (auto* const member : issuing_)
    {
      cuda_check(cudaEventRecord(member->done.get(), stream_.get()), "cudaEventRecord",
                 doing(*member));
      member->state = State::under_way;
      under_way_.push_back(member);
    }
    issuing_.clear();
  }

  void finish(NcclMember& member)
  {
    member.state = State::complete;
    if (!member.held) spare_.push_back(&member);
  }

  NcclMember& spare()
  {
    if (spare_.empty()) spare_.push_back(members_.emplace_back(new NcclMember).get());
    auto& member = *spare_.back();
    spare_.pop_back();
    return member;
  }

  NcclPlace place_;
  CudaStream stream_;
  std::vector<std::unique_ptr<NcclMember>> members_;
  std::vector<NcclMember*> spare_;
  std::vector<NcclMember*> messages_;            // of the group that is not closed
  std::deque<std::vector<NcclMember*>> queued_;  // each a collective, or a group of messages
  std::vector<NcclMember*> issuing_;
  std::deque<NcclMember*> under_way_;
  NcclHandle handle_;  // the first to go: then nothing runs in the stream
};

}  // namespace cubist::detail
