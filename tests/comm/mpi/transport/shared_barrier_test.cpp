// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/backend/mpi.hpp"
#include "cubist/comm/mpi/transport/shared_barrier.hpp"

#include "ranks.hpp"
#include "watchdog.hpp"

namespace cubist::test::comm_mpi_transport_shared_barrier_test
{

// Tests several slots of one process, which act as ranks, and then communicators.

using detail::BarrierPayload;
using detail::FlagSlot;
using detail::FlagSlotHandle;
using detail::FutexEvent;
using detail::MpiSharedBarrier;
using detail::MpiSharedBarrierCall;

/// The ranks of a barrier. The test lets them arrive one after the other.
struct Ranks
{
  explicit Ranks(std::size_t size)
      : slots(size),
        events(size)
  {
    std::vector<MpiSharedBarrier::Rank> ranks;
    for (std::size_t r = 0; r < size; ++r)
      ranks.push_back({slots[r].get(), &events[r], slots[r].get()->arrived});
    for (std::size_t r = 0; r < size; ++r) all.emplace_back(ranks, static_cast<int>(r));
  }

  std::vector<FlagSlotHandle> slots;
  std::vector<FutexEvent> events;
  std::vector<MpiSharedBarrier> all;
};

static std::vector<BarrierPayload> payloads_read_by(MpiSharedBarrier& rank, std::uint64_t barrier)
{
  std::vector<BarrierPayload> all;
  for (std::size_t i = 0; i < rank.size(); ++i) all.push_back(rank.payload(i, barrier));
  rank.end_reading(barrier);
  return all;
}

TEST_CASE("a barrier is complete when all have arrived, and the last one notifies the others")
{
  Ranks ranks{3};
  auto& a = ranks.all[0];
  auto& b = ranks.all[1];
  auto& c = ranks.all[2];
  CHECK(a.next_barrier() == 1);
  CHECK(b.next_barrier() == 1);
  CHECK(c.next_barrier() == 1);
  CHECK(a.try_arrive(1, {10, 11}));
  CHECK(c.try_arrive(1, {30, 31}));
  CHECK_FALSE(a.is_complete(1));
  CHECK(a.missing_ranks(1) == std::vector{1});
  CHECK(ranks.events[0].count() == 0);
  CHECK(b.try_arrive(1, {20, 21}));
  for (auto* rank : {&a, &b, &c})
  {
    CHECK(rank->is_complete(1));
    CHECK(rank->missing_ranks(1).empty());
    CHECK(payloads_read_by(*rank, 1) == std::vector<BarrierPayload>{{10, 11}, {20, 21}, {30, 31}});
  }
  CHECK(ranks.events[0].count() == 1);
  CHECK(ranks.events[1].count() == 0);
  CHECK(ranks.events[2].count() == 1);
}

TEST_CASE("a rank that sees a barrier incomplete is notified though it does not sleep yet")
{
  const Watchdog watchdog;
  Ranks ranks{2};
  auto& sleeper = ranks.all[0];
  auto& last = ranks.all[1];
  for (std::uint64_t n : {1U, 2U})
  {
    CHECK(sleeper.next_barrier() == n);
    CHECK(last.next_barrier() == n);
    CHECK(sleeper.try_arrive(n, {}));
    ranks.events[0].wait_unless([&] {
      const bool is_complete = sleeper.is_complete(n);
      CHECK(last.try_arrive(n, {}));  // after it has looked, and before it sleeps
      return is_complete;
    });
    CHECK(sleeper.is_complete(n));
    for (auto* rank : {&sleeper, &last}) rank->end_reading(n);
  }
}

TEST_CASE(
    "a rank may be many barriers ahead, but no payload is overwritten before all have read it")
{
  Ranks ranks{2};
  auto& ahead = ranks.all[0];
  auto& behind = ranks.all[1];
  for (std::uint64_t m = 1; m <= FlagSlot::depth; ++m)
  {
    REQUIRE(ahead.next_barrier() == m);
    REQUIRE(ahead.try_arrive(m, {m, 0}));
  }
  const std::uint64_t next = ahead.next_barrier();
  const std::uint64_t after = ahead.next_barrier();
  CHECK_FALSE(ahead.try_arrive(next, {next, 0}));
  for (std::uint64_t m = 1; m <= 3; ++m) REQUIRE(behind.try_arrive(behind.next_barrier(), {0, m}));
  // All must still read the first barrier's payloads, whichever later ones they have read.
  for (const std::uint64_t m : {3U, 2U})
    for (auto* rank : {&ahead, &behind})
      CHECK(payloads_read_by(*rank, m) == std::vector<BarrierPayload>{{m, 0}, {0, m}});
  CHECK_FALSE(ahead.try_arrive(next, {next, 0}));
  CHECK(payloads_read_by(ahead, 1) == std::vector<BarrierPayload>{{1, 0}, {0, 1}});
  CHECK_FALSE(ahead.try_arrive(next, {next, 0}));
  CHECK(payloads_read_by(behind, 1) == std::vector<BarrierPayload>{{1, 0}, {0, 1}});
  CHECK_FALSE(ahead.try_arrive(after, {after, 0}));  // it must first arrive at the barrier before
  CHECK(ahead.try_arrive(next, {next, 0}));
  CHECK(ahead.try_arrive(after, {after, 0}));
}

TEST_CASE("a rank that waits for another call finds the mismatch in a payload that it has not read")
{
  Ranks ranks{2};
  auto& waits = ranks.all[0];
  auto& other = ranks.all[1];
  const auto is_nine = [](const BarrierPayload& payload) { return payload[0] == 9; };
  CHECK(waits.find_mismatch(is_nine) == -1);
  REQUIRE(other.try_arrive(other.next_barrier(), {8}));
  CHECK(waits.find_mismatch(is_nine) == -1);
  REQUIRE(other.try_arrive(other.next_barrier(), {9}));
  CHECK(waits.find_mismatch(is_nine) == 1);
  for (const std::uint64_t m : {1U, 2U})
  {
    REQUIRE(waits.try_arrive(waits.next_barrier(), {7 + m}));
    (void)payloads_read_by(waits, m);
  }
  CHECK(waits.find_mismatch(is_nine) == -1);
}

TEST_CASE("slots are reused, and their numbers increase")
{
  FlagSlot* before = nullptr;
  {
    Ranks ranks{1};
    before = ranks.slots[0].get();
    REQUIRE(ranks.all[0].try_arrive(ranks.all[0].next_barrier(), {7, 7}));
    CHECK(payloads_read_by(ranks.all[0], 1) == std::vector<BarrierPayload>{{7, 7}});
  }
  Ranks ranks{1};
  CHECK(ranks.slots[0].get() == before);
  CHECK(before->arrived > 0);
  REQUIRE(ranks.all[0].next_barrier() == 1);
  CHECK_FALSE(ranks.all[0].is_complete(1));
  REQUIRE(ranks.all[0].try_arrive(1, {8, 8}));
  CHECK(payloads_read_by(ranks.all[0], 1) == std::vector<BarrierPayload>{{8, 8}});

  FlagSlotHandle leaked;
  const FlagSlot* const slot = leaked.get();
  leaked.leak();
  CHECK(FlagSlotHandle{}.get() != slot);
}

TEST_CASE("a rank may be fewer barriers with blocks ahead, and none overwrites what is to be read")
{
  Ranks ranks{2};
  auto& ahead = ranks.all[0];
  auto& behind = ranks.all[1];
  const std::array<std::byte, 2> block{std::byte{1}, std::byte{2}};
  REQUIRE(ahead.try_arrive(ahead.next_barrier(), {}, block));
  for (std::uint64_t m = 2; m <= FlagSlot::block_depth; ++m)
    REQUIRE(ahead.try_arrive(ahead.next_barrier(), {}));
  const std::uint64_t next = ahead.next_barrier();
  CHECK_FALSE(ahead.try_arrive(next, {}, block));
  REQUIRE(behind.try_arrive(behind.next_barrier(), {}));
  (void)payloads_read_by(ahead, 1);
  CHECK_FALSE(ahead.try_arrive(next, {}, block));
  CHECK(behind.block(0, 1)[1] == std::byte{2});
  (void)payloads_read_by(behind, 1);
  CHECK(ahead.try_arrive(next, {}, block));
}

TEST_CASE("every rank reads the blocks of all ranks once all have arrived, short and long ones")
{
  const std::size_t count = GENERATE(0U, 1U, 2U, 3U, 512U);
  Ranks ranks{2};
  std::array<MpiSharedBarrierCall, 2> calls;
  using Numbers = std::vector<std::uint64_t>;
  const std::array<Numbers, 2> sent{Numbers(count, 7), Numbers(count, 9)};
  std::array<std::array<Numbers, 2>, 2> received{};
  for (std::size_t r = 0; r < 2; ++r)
    calls[r].begin(ranks.all[r], 5, std::as_bytes(std::span{sent[r]}));

  MpiSharedBarrierCall::Mismatch mismatch;
  const auto advance = [&](std::size_t rank) {
    return calls[rank].advance(mismatch, [&](std::span<const std::byte* const> blocks) {
      for (std::size_t i = 0; i < 2; ++i)
      {
        received[rank][i].resize(count);
        if (count > 0) std::memcpy(received[rank][i].data(), blocks[i], count * sizeof(sent[0][0]));
      }
    });
  };
  CHECK_FALSE(advance(0));
  CHECK(calls[0].missing_ranks() == std::vector{1});
  CHECK(advance(1));
  CHECK(received[1] == sent);
  CHECK(advance(0));
  CHECK(calls[0].missing_ranks().empty());
  CHECK(received[0] == sent);
  CHECK(mismatch.rank == -1);
}

TEST_CASE("ranks that arrive with different calls detect the mismatch, and read nothing")
{
  Ranks ranks{2};
  std::array<MpiSharedBarrierCall, 2> calls;
  for (std::size_t r = 0; r < 2; ++r) calls[r].begin(ranks.all[r], 5 + static_cast<int>(r), {});
  std::array<MpiSharedBarrierCall::Mismatch, 2> mismatches;
  int reads = 0;
  const auto advance = [&](std::size_t rank) {
    return calls[rank].advance(mismatches[rank], [&](const auto&) { ++reads; });
  };
  CHECK_FALSE(advance(0));
  CHECK(advance(1));
  CHECK(advance(0));
  CHECK(reads == 0);
  CHECK(mismatches[0].rank == 1);
  CHECK(mismatches[0].tag == 6);
  CHECK(mismatches[1].rank == 0);
  CHECK(mismatches[1].tag == 5);
}

TEST_CASE("communicators of one node complete many barriers, in halves and as a whole")
{
  require_clear(on_ranks<Mpi>(fits(4) ? 4 : 1, [](MpiCommunicator& world) {
    Findings found;
    auto half = world.split(world.rank() % 2, 0);
    found.check(world.remote() || world.exposes(), "ranks of one node do not expose");
    if (world.remote()) return found;
    using Request = decltype(world.async_barrier());
    std::vector<std::uint64_t> mine(2000);
    for (int round = 0; round < 20; ++round)
    {
      std::vector<Request> in_flight;
      for (int i = 0; i < 100; ++i)  // more than the depth of a slot
        in_flight.push_back(i % 3 == 0 ? half.async_barrier() : world.async_barrier());
      auto window = half.expose(mine);
      const int other = half.size() - 1 - half.rank();
      found.check(window[other][0] == static_cast<std::uint64_t>(round), "what rank ", other,
                  " exposes in round ", round);
      window.close();
      window.wait();
      mine[0] = static_cast<std::uint64_t>(round) + 1;
      for (auto& request : in_flight) request.wait();
    }
    return found;
  }));
}

}  // namespace cubist::test::comm_mpi_transport_shared_barrier_test
