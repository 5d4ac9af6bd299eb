// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The bodies of group.hpp's functions, which the compiled library contains.

#include <algorithm>
#include <string>
#include <thread>
#include <utility>

#include "cubist/comm/threads/group.hpp"

namespace cubist::CUBIST_ABI::detail
{

CUBIST_INLINE ThreadGroup::ThreadGroup(std::shared_ptr<ThreadScheduler> scheduler,
                                       std::vector<int> ranks)
    : RankGroup{std::move(ranks), {.collectives = 16, .messages = 1024}},
      context_{std::move(scheduler), {}, {}}
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
  if (!me.is_open()) scheduler().wait(me.world_rank, me, [&] { return me.is_open(); });
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

}  // namespace cubist::CUBIST_ABI::detail
