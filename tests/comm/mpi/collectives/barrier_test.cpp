// SPDX-License-Identifier: BSD-3-Clause
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cubist/comm/mpi/collectives/barrier.hpp"

#include "../job_context.hpp"
#include "catch.hpp"

namespace comm_mpi_collectives_barrier_test
{

// The ranks of shared-memory barriers are slots of one process, as in shared_barrier_test.cpp.

using namespace cubist;
using namespace cubist::test;
using detail::FlagSlotHandle;
using detail::FutexEvent;
using detail::MpiMessages;
using detail::MpiSharedBarrier;
using detail::MpiSharedBarrierCall;

namespace
{

struct TwoRanks
{
  TwoRanks()
  {
    std::vector<MpiSharedBarrier::Rank> ranks;
    for (std::size_t r = 0; r < 2; ++r)
      ranks.push_back({slots[r].get(), &events[r], slots[r].get()->arrived});
    for (int r = 0; r < 2; ++r) barriers.emplace_back(ranks, r);
  }

  std::array<FlagSlotHandle, 2> slots;
  std::array<FutexEvent, 2> events;
  std::vector<MpiSharedBarrier> barriers;
};

using Numbers = std::array<std::uint64_t, 2>;

}  // namespace

TEST_CASE("every rank receives the bytes of all ranks once all have arrived")
{
  TwoRanks ranks;
  std::array<MpiSharedBarrierCall, 2> calls;
  const std::array<Numbers, 2> sent{Numbers{1, 2}, Numbers{3, 4}};
  std::array<std::array<Numbers, 2>, 2> received{};
  for (std::size_t r = 0; r < 2; ++r)
    calls[r].begin(ranks.barriers[r], 5, std::as_bytes(std::span{sent[r]}),
                   reinterpret_cast<std::byte*>(&received[r]));
  static_assert(MpiSharedBarrierCall::max_bytes == sizeof(Numbers));

  MpiSharedBarrierCall::Mismatch mismatch;
  CHECK_FALSE(calls[0].advance(mismatch));
  CHECK(calls[0].missing_ranks() == std::vector{1});
  CHECK(calls[1].advance(mismatch));
  CHECK(received[1] == sent);
  CHECK(calls[0].advance(mismatch));
  CHECK(calls[0].missing_ranks().empty());
  CHECK(received[0] == sent);
  CHECK(mismatch.rank == -1);
}

TEST_CASE("ranks that arrive with different calls detect the mismatch")
{
  TwoRanks ranks;
  std::array<MpiSharedBarrierCall, 2> calls;
  for (std::size_t r = 0; r < 2; ++r)
    calls[r].begin(ranks.barriers[r], 5 + static_cast<int>(r), {}, nullptr);
  std::array<MpiSharedBarrierCall::Mismatch, 2> mismatches;
  CHECK_FALSE(calls[0].advance(mismatches[0]));
  CHECK(calls[1].advance(mismatches[1]));
  CHECK(calls[0].advance(mismatches[0]));
  CHECK(mismatches[0].rank == 1);
  CHECK(mismatches[0].tag == 6);
  CHECK(mismatches[1].rank == 0);
  CHECK(mismatches[1].tag == 5);
}

TEST_CASE("a barrier by messages completes when all ranks have called it")
{
  JobContext job{16};
  const int size = job.context.size;
  MpiMessages messages;
  for (const bool names_missing_ranks : {false, true})
  {
    CAPTURE(names_missing_ranks);
    job.context.names_missing_ranks = names_missing_ranks;
    messages.begin(job.context, 1, "barrier");
    if (process() > 0) detail::start_barrier(messages);
    if (process() > 0) CHECK_FALSE(messages.advance([](std::size_t) {}));
    MPI_Barrier(MPI_COMM_WORLD);
    if (process() == 0) detail::start_barrier(messages);
    CHECK(messages.count() == (names_missing_ranks ? 2 * (static_cast<std::size_t>(size) - 1) : 1));
    complete_all(messages);
    CHECK(messages.pending_peers(true).empty());
  }
}

}  // namespace comm_mpi_collectives_barrier_test
