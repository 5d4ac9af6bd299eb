// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A group of ranks that are threads: a rank that waits is parked by the scheduler.

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cubist/comm/call.hpp"
#include "cubist/comm/erased_call.hpp"
#include "cubist/comm/group/group.hpp"
#include "cubist/comm/threads/call.hpp"
#include "cubist/comm/threads/scheduler.hpp"
#include "cubist/core/compiled.hpp"
#include "cubist/core/scalar.hpp"

namespace cubist::CUBIST_ABI::detail
{

class ThreadGroup : public RankGroup<ThreadGroup, ThreadCall>
{
 public:
  /// @param ranks of the launch, in the order of the communicator
  ThreadGroup(std::shared_ptr<ThreadScheduler> scheduler, std::vector<int> ranks);

  [[nodiscard]] bool remote() const { return false; }
  [[nodiscard]] bool exposes() const { return true; }
  [[nodiscard]] int cores() const;
  [[nodiscard]] bool completes_at_start() const { return false; }
  template <Element T>
  void count(int, const cubist::Call<T>&)
  {
  }

  /// @throws CollectiveMismatch, and what ThreadScheduler::raise throws
  ThreadMember& post(int rank, const ErasedCall& mine);

  void wait(ThreadMember& me) { scheduler().wait(me.world_rank, me); }
  bool test(ThreadMember& me) { return scheduler().test(me.world_rank, me); }
  /// Waits until all ranks have exposed their blocks.
  void wait_open(ThreadMember& me);
  void close(ThreadMember& me) { me.call->close(me); }

  void release(ThreadMember& me);
  void abandon(ThreadMember& me);

  [[nodiscard]] std::unique_lock<std::mutex> lock() { return std::unique_lock{context_.mutex}; }
  void adopt(ThreadCall& call) { call.context = &context_; }
  [[nodiscard]] std::shared_ptr<ThreadGroup> make(std::vector<int> ranks) const;

 private:
  [[nodiscard]] ThreadScheduler& scheduler() const { return *context_.scheduler; }

  ThreadContext context_;
};

#ifndef CUBIST_COMPILED

CUBIST_INLINE ThreadGroup::ThreadGroup(std::shared_ptr<ThreadScheduler> scheduler,
                                       std::vector<int> ranks)
    : RankGroup{std::move(ranks), {.collectives = 16, .messages = 1024}}, context_{
                                                                              std::move(scheduler),
                                                                              {},
                                                                              {}}
{
  add_spare_collectives();
}

CUBIST_INLINE int ThreadGroup::cores() const
{
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

CUBIST_INLINE ThreadMember& ThreadGroup::post(int rank, const ErasedCall& mine)
{
  scheduler().raise();
  ThreadScheduler::DeferredNotify notify{scheduler(), ranks()[static_cast<std::size_t>(rank)]};
  auto lock = this->lock();
  auto& me = next(rank, mine, [&](const std::string& why) {
    lock.unlock();
    scheduler().fail(ThreadScheduler::Failure::mismatch, why);
  });
  me.call->begin(me, notify);
  scheduler().add(me.world_rank, me);
  return me;
}

CUBIST_INLINE void ThreadGroup::wait_open(ThreadMember& me)
{
  scheduler().wait(me.world_rank, me, [&] { return me.reads_peers; });
}

CUBIST_INLINE void ThreadGroup::release(ThreadMember& me)
{
  const auto lock = this->lock();
  leave(*me.call);
}

CUBIST_INLINE void ThreadGroup::abandon(ThreadMember& me)
{
  if (!me.remaining.empty()) me.call->revoke(me);
  release(me);
}

CUBIST_INLINE std::shared_ptr<ThreadGroup> ThreadGroup::make(std::vector<int> ranks) const
{
  return std::make_shared<ThreadGroup>(context_.scheduler, std::move(ranks));
}

#endif

}  // namespace cubist::CUBIST_ABI::detail
