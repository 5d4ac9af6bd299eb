// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/comm/nccl/queue.hpp"

#include "fake.hpp"
#include "nccl_on_threads.hpp"
#include "ranks.hpp"
#include "single_rank.hpp"

namespace cubist::test::comm_nccl_queue_test
{

using cubist::detail::nccl_call;
using cubist::detail::NcclQueue;
using cubist::detail::PendingNcclCall;
using State = PendingNcclCall::State;

/// A single rank's queue.
struct SingleRank
{
  SingleRank()
  {
    create_alone(queue.handle());
    queue.set_rank(0, 1);
  }

  [[nodiscard]] Call<int> call(CallKind c) const
  {
    return {c, {memory.as<int>(), 2}, {memory.as<int>(8), 2}, 2};
  }
  void advance_until(const PendingNcclCall& pending, State state)
  {
    while (pending.state < state)
    {
      queue.advance();
      std::this_thread::yield();
    }
  }

  cubist::detail::CudaStream compute;
  DeviceMemory memory{16};
  NcclQueue queue{memory.as<int>()};
};

TEST_CASE("NcclQueue: a call runs after the earlier work of the compute stream")
{
  SingleRank rank;
  auto& queue = rank.queue;
  fake::Gate gate{rank.compute.get()};
  auto& pending = queue.start(nccl_call(rank.call(CallKind::all_reduce)), rank.compute.get());
  rank.advance_until(pending, State::in_flight);
  queue.advance();
  CHECK(pending.state == State::in_flight);
  CHECK_FALSE(queue.oldest_wait());  // it waits for its own compute stream
  CHECK_FALSE(queue.is_idle());
  CHECK(queue.text(pending) == "all_reduce of 2 int32 by sum on rank 0 of 1");
  gate.open();
  rank.advance_until(pending, State::complete);
  CHECK(queue.is_idle());
  queue.release(pending);
  // The next call reuses its record.
  CHECK(&queue.start(nccl_call(Call<int>{CallKind::broadcast}), rank.compute.get()) == &pending);
  CHECK(pending.state == State::complete);  // an empty call
}

TEST_CASE("NcclQueue: messages run as one group after one of them is waited for")
{
  SingleRank rank;
  auto& queue = rank.queue;
  const auto start = [&](CallKind c) -> PendingNcclCall& {
    return queue.start(nccl_call(rank.call(c)), rank.compute.get());
  };
  const std::array<int, 2> sent{3, 4};
  copy_bytes(rank.memory.as<int>(), sent.data(), 8, cudaMemcpyHostToDevice, rank.compute.get());
  auto& receive = start(CallKind::receive);
  auto& barrier = start(CallKind::barrier);
  rank.advance_until(barrier, State::complete);
  CHECK(receive.state == State::queued);
  queue.close_group(barrier);
  queue.advance();
  CHECK(receive.state == State::queued);

  auto& send = start(CallKind::send);
  CHECK(send.state == State::queued);
  CHECK(queue.has_queued());
  queue.close_group(receive);
  auto& later = start(CallKind::send);
  queue.close_group(receive);  // its group is closed already
  rank.advance_until(receive, State::complete);
  rank.advance_until(send, State::complete);
  CHECK(later.state == State::queued);

  std::array<int, 2> got{};
  copy_bytes(got.data(), rank.memory.as<int>(8), 8, cudaMemcpyDeviceToHost, rank.compute.get());
  cudaStreamSynchronize(rank.compute.get());
  CHECK(got == sent);
}

}  // namespace cubist::test::comm_nccl_queue_test
