// SPDX-License-Identifier: BSD-3-Clause
#include <array>
#include <span>
#include <thread>

#include "cubist/comm/nccl/queue.hpp"

#include "catch.hpp"
#include "fake.hpp"
#include "nccl_on_threads.hpp"
#include "ranks.hpp"

using namespace cubist;
using namespace cubist::test;
using cubist::detail::nccl_call;
using cubist::detail::NcclMember;
using cubist::detail::NcclQueue;
using Stage = NcclMember::State;

namespace
{

/// The queue of a rank alone.
struct Alone
{
  Alone()
  {
    ncclUniqueId id{};
    ncclGetUniqueId(&id);
    auto config = cubist::detail::NcclHandle::config();
    ncclCommInitRankConfig(queue.handle().room(), 1, id, 0, &config);
    queue.set_place(0, 1);
  }

  [[nodiscard]] Call<int> call(Collective c) const
  {
    return {c, {memory.as<int>(), 2}, {memory.as<int>(8), 2}, 2};
  }
  void advance_until(const NcclMember& member, Stage state)
  {
    while (member.state < state)
    {
      queue.advance();
      std::this_thread::yield();
    }
  }

  cubist::detail::CudaStream compute;
  DeviceMemory memory{16};
  NcclQueue queue{memory.as<int>()};
};

}  // namespace

TEST_CASE("a call runs when the compute stream has come to it")
{
  Alone rank;
  auto& queue = rank.queue;
  fake::Gate gate{rank.compute.get()};
  auto& member = queue.start(nccl_call(rank.call(Collective::all_reduce)), rank.compute.get());
  rank.advance_until(member, Stage::under_way);
  queue.advance();
  CHECK(member.state == Stage::under_way);
  CHECK_FALSE(queue.awaited());  // it waits for its own rank
  CHECK_FALSE(queue.is_idle());
  CHECK(queue.text(member) == "all_reduce of 2 int32 by sum on rank 0 of 1");
  gate.open();
  rank.advance_until(member, Stage::complete);
  CHECK(queue.is_idle());
  queue.leave(member);
  // Its place is taken by the next call.
  CHECK(&queue.start(nccl_call(Call<int>{Collective::broadcast}), rank.compute.get()) == &member);
  CHECK(member.state == Stage::complete);  // of nothing
}

TEST_CASE("messages travel as one group, once one of them is waited for")
{
  Alone rank;
  auto& queue = rank.queue;
  const auto start = [&](Collective c) -> NcclMember& {
    return queue.start(nccl_call(rank.call(c)), rank.compute.get());
  };
  const std::array<int, 2> sent{3, 4};
  copy_bytes(rank.memory.as<int>(), sent.data(), 8, cudaMemcpyHostToDevice, rank.compute.get());
  auto& receive = start(Collective::receive);
  auto& barrier = start(Collective::barrier);
  rank.advance_until(barrier, Stage::complete);
  CHECK(receive.state == Stage::queued);
  queue.close_group(barrier);
  queue.advance();
  CHECK(receive.state == Stage::queued);

  auto& send = start(Collective::send);
  CHECK(send.state == Stage::queued);
  CHECK(queue.has_queued());
  queue.close_group(receive);
  auto& later = start(Collective::send);
  queue.close_group(receive);  // of a group that is closed
  rank.advance_until(receive, Stage::complete);
  rank.advance_until(send, Stage::complete);
  CHECK(later.state == Stage::queued);

  std::array<int, 2> got{};
  copy_bytes(got.data(), rank.memory.as<int>(8), 8, cudaMemcpyDeviceToHost, rank.compute.get());
  cudaStreamSynchronize(rank.compute.get());
  CHECK(got == sent);
}
