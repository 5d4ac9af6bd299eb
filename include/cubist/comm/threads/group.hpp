// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A group of ranks that are threads. The scheduler parks a rank that waits.

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "cubist/comm/erased_call.hpp"
#include "cubist/comm/group/group.hpp"
#include "cubist/comm/small_call.hpp"
#include "cubist/comm/threads/call.hpp"
#include "cubist/comm/threads/scheduler.hpp"
#include "cubist/core/compiled.hpp"

namespace cubist::CUBIST_ABI::detail
{

class ThreadGroup : public RankGroup<ThreadGroup, ThreadCall>
{
 public:
  /// @param ranks the communicator's ranks in order, by their numbers in the launch
  ThreadGroup(std::shared_ptr<ThreadScheduler> scheduler, std::vector<int> ranks);

  [[nodiscard]] bool remote() const { return false; }
  [[nodiscard]] bool exposes() const { return true; }
  [[nodiscard]] int cores() const;
  /// Moves a rank, a worker that begins to compute, if another core has fewer of the workers.
  void spread_over_cores(int rank, int workers)
  {
    scheduler().spread(ranks()[static_cast<std::size_t>(rank)], ranks(), workers);
  }
  [[nodiscard]] bool completes_at_start() const { return false; }

  /// @throws CollectiveMismatch, and what ThreadScheduler::raise throws
  ThreadMember& post(int rank, const ErasedCall& mine);

  void wait(ThreadMember& me) { scheduler().wait(me.world_rank, me); }
  bool test(ThreadMember& me) { return scheduler().test(me.world_rank, me); }
  /// Waits until all ranks have exposed their blocks.
  void wait_open(ThreadMember& me);
  void close(ThreadMember& me) { me.call->close(me); }

  void release(ThreadMember& me);
  void abandon(ThreadMember& me);

  [[nodiscard]] std::unique_lock<std::mutex> lock() { return context_.lock(); }
  void adopt(ThreadCall& call)
  {
    call.context = &context_;
    const std::size_t ranks = call.members.size();
    if (!call.is_message())
      call.copies = std::make_unique_for_overwrite<std::byte[]>(ranks * longest_copy(ranks));
  }
  [[nodiscard]] std::shared_ptr<ThreadGroup> make(std::vector<int> ranks) const;

 private:
  [[nodiscard]] ThreadScheduler& scheduler() const { return *context_.scheduler; }

  ThreadContext context_;
};

}  // namespace cubist::CUBIST_ABI::detail

#include CUBIST_BODY("cubist/comm/threads/group_body.hpp")
