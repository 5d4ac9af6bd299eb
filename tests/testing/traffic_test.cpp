// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/backend/threads.hpp"
#include "cubist/testing/traffic.hpp"

#include "ranks.hpp"

namespace cubist::test::testing_traffic_test
{

static Sent sent(CallKind c, std::size_t count, int rank, int ranks, int peer = 0)
{
  return sent_by(Call<float>{.kind = c, .count = count, .peer = peer}, rank, ranks);
}

TEST_CASE("one rank sends nothing")
{
  for (std::size_t c = 0; c < call_kind_count; ++c)
    CHECK(sent(static_cast<CallKind>(c), 10, 0, 1) == Sent{});
}

static Sent total(CallKind c, std::size_t count, int ranks, int root = 0)
{
  Sent all;
  for (int r = 0; r < ranks; ++r) all += sent(c, count, r, ranks, root);
  return all;
}

/// What each rank sends when n elements are reduced around a ring and then gathered around it. In
/// each step a rank sends one of the P shares to its successor.
static std::vector<Sent> ring_all_reduce(std::uint64_t n, int ranks)
{
  const auto p = static_cast<std::uint64_t>(ranks);
  const auto share = [&](std::uint64_t i) { return n / p + (i < n % p ? 1 : 0); };
  std::vector<Sent> by_rank(p);
  for (std::uint64_t step = 0; step + 1 < p; ++step)
    for (std::uint64_t r = 0; r < p; ++r)
    {
      by_rank[r] += {1, share((r + p - step) % p)};      // a partial sum
      by_rank[r] += {1, share((r + 1 + p - step) % p)};  // a complete one
    }
  return by_rank;
}

TEST_CASE("all_reduce is a ring of shares, even for sizes that are not multiples of the ranks")
{
  for (int p = 2; p <= 9; ++p)
    for (std::uint64_t n = 0; n <= 30; ++n)
    {
      CAPTURE(p, n);
      const auto ring = ring_all_reduce(n, p);
      for (int r = 0; r < p; ++r)
        REQUIRE(sent(CallKind::all_reduce, n, r, p) == ring[static_cast<std::size_t>(r)]);
      const auto q = static_cast<std::uint64_t>(p);
      REQUIRE(total(CallKind::all_reduce, n, p) == Sent{2 * q * (q - 1), 2 * (q - 1) * n});
    }
}

TEST_CASE("broadcast and reduce are chains of successors of the root")
{
  for (int root = 0; root < 4; ++root)
  {
    // A broadcast ends at the predecessor of the root, a reduction at the root.
    const int last = (root + 3) % 4;
    for (int r = 0; r < 4; ++r)
    {
      CAPTURE(root, r);
      CHECK(sent(CallKind::broadcast, 7, r, 4, root) == (r == last ? Sent{} : Sent{1, 7}));
      CHECK(sent(CallKind::reduce, 7, r, 4, root) == (r == root ? Sent{} : Sent{1, 7}));
    }
    CHECK(total(CallKind::broadcast, 7, 4, root) == Sent{3, 21});
    CHECK(total(CallKind::reduce, 7, 4, root) == Sent{3, 21});
  }
}

TEST_CASE("rings and direct messages send all pieces except one")
{
  for (const auto c : {CallKind::all_gather, CallKind::reduce_scatter, CallKind::all_to_all})
    for (int r = 0; r < 5; ++r) CHECK(sent(c, 3, r, 5) == Sent{4, 12});
}

TEST_CASE("gather and scatter are direct messages from or to the root")
{
  for (int root = 0; root < 5; ++root)
    for (int r = 0; r < 5; ++r)
    {
      CHECK(sent(CallKind::gather, 3, r, 5, root) == (r == root ? Sent{} : Sent{1, 3}));
      CHECK(sent(CallKind::scatter, 3, r, 5, root) == (r == root ? Sent{4, 12} : Sent{}));
    }
}

TEST_CASE("a barrier is one message for each doubling of the ranks")
{
  const std::vector<std::uint64_t> messages{0, 0, 1, 2, 2, 3, 3, 3, 3, 4};
  for (int p = 1; p <= 9; ++p)
    CHECK(sent(CallKind::barrier, 0, 0, p) == Sent{messages[static_cast<std::size_t>(p)], 0});
  CHECK(sent(CallKind::barrier, 0, 0, 512) == Sent{9, 0});
}

TEST_CASE("a message counts on its sender, unless the sender receives it")
{
  CHECK(sent(CallKind::send, 6, 1, 4, 3) == Sent{1, 6});
  CHECK(sent(CallKind::send, 6, 3, 4, 3) == Sent{});
  CHECK(sent(CallKind::receive, 6, 3, 4, 1) == Sent{});
}

TEST_CASE("traffic accumulates by collective, and can be reset")
{
  Traffic traffic;
  traffic.add(CallKind::broadcast, {1, 10});
  traffic.add(CallKind::broadcast, {1, 20});
  traffic.add(CallKind::barrier, {3, 0});
  CHECK(traffic[CallKind::broadcast] == Sent{2, 30});
  CHECK(traffic[CallKind::barrier] == Sent{3, 0});
  CHECK(traffic[CallKind::reduce] == Sent{});
  CHECK(traffic.total() == Sent{5, 30});
  traffic.reset();
  CHECK(traffic.total() == Sent{});
}

TEST_CASE("a counting communicator counts each collective as the formulas say")
{
  const int ranks = GENERATE(1, 2, 3, 7);
  const std::size_t n = GENERATE(0U, 1U, 10U, 1001U);
  CAPTURE(ranks, n);
  require_clear(on_ranks<Counting<Threads>>(ranks, [&](auto& world) {
    Findings found;
    const auto p = static_cast<std::uint64_t>(world.size());
    const int rank = world.rank();
    const int root = world.size() / 2;
    const int distance = (rank - root + world.size()) % world.size();
    const bool alone = p == 1;
    std::vector<double> x(n);
    std::vector<double> y(n);
    std::vector<double> wide(n * p);
    std::vector<double> wider(n * p);
    auto& traffic = world.traffic();
    const auto counted = [&](CallKind c, Sent expected) {
      const Sent got = traffic[c];
      found.check(got == expected && traffic.total() == expected, to_string(c), " on rank ", rank,
                  " of ", p, " with ", n, " elements counted ", got.messages, " messages, ",
                  got.elements, " elements, of ", traffic.total().messages, " and ",
                  traffic.total().elements, " in all");
      traffic.reset();
    };
    world.barrier();
    counted(CallKind::barrier, {ranks == 1 ? 0U : ranks == 2 ? 1U : ranks <= 4 ? 2U : 3U, 0});
    world.broadcast(x, root);
    counted(CallKind::broadcast, distance == world.size() - 1 ? Sent{} : Sent{1, n});
    world.reduce(x, y, root);
    counted(CallKind::reduce, distance == 0 ? Sent{} : Sent{1, n});
    world.all_reduce(x);
    counted(CallKind::all_reduce, ring_all_reduce(n, ranks)[static_cast<std::size_t>(rank)]);
    world.all_gather(x, wide);
    counted(CallKind::all_gather, {p - 1, (p - 1) * n});
    world.reduce_scatter(wide, x, ReduceOp::max);
    counted(CallKind::reduce_scatter, {p - 1, (p - 1) * n});
    world.all_to_all(wide, wider);
    counted(CallKind::all_to_all, {p - 1, (p - 1) * n});
    world.gather(x, wide, root);
    counted(CallKind::gather, distance == 0 ? Sent{} : Sent{1, n});
    world.scatter(wide, x, root);
    counted(CallKind::scatter, distance == 0 ? Sent{p - 1, (p - 1) * n} : Sent{});
    auto request = world.async_send(x, (rank + 1) % world.size());
    counted(CallKind::send, alone ? Sent{} : Sent{1, n});
    world.receive(y, (rank + world.size() - 1) % world.size());
    counted(CallKind::receive, {});
    request.wait();
    counted(CallKind::send, {});
    return found;
  }));
}

TEST_CASE("groups share the counters of their rank, and count by their own size")
{
  require_clear(on_ranks<Counting<Threads>>(6, [](auto& world) {
    Findings found;
    auto group = world.split(world.rank() % 2, 0);
    auto pairs = group.split(group.rank() / 2, 0);
    auto copy = world;
    found.check(world.traffic().total() == Sent{}, "splitting was counted");
    std::vector<float> x(5);
    std::vector<float> y(15);
    group.all_gather(x, y);
    found.check(world.traffic().total() == Sent{2, 10}, "a group's traffic is not its rank's");
    pairs.all_gather(x, std::span{y}.first(5 * static_cast<std::size_t>(pairs.size())));
    const bool paired = pairs.size() == 2;
    found.check(group.traffic().total() == (paired ? Sent{3, 15} : Sent{2, 10}),
                "a group of a group's traffic is not its rank's");
    found.check(&copy.traffic() == &world.traffic(), "a copy has other counters");
    return found;
  }));
}

TEST_CASE("calls that fail are not counted")
{
  require_clear(on_ranks<Counting<Threads>>(2, [](auto& world) {
    Findings found;
    std::vector<float> x(5);
    const auto no_rank = message_of<ArgumentError>([&] { world.broadcast(x, 2); });
    const auto no_fit = message_of<ShapeError>([&] { world.all_gather(x, x); });
    found.check(!no_rank.empty() && !no_fit.empty(), "bad arguments were accepted");
    found.check(world.traffic().total() == Sent{}, "a failed call was counted");
    return found;
  }));
}

TEST_CASE("the elements of all ranks add up to the formulas")
{
  const int ranks = GENERATE(2, 3, 8);
  constexpr std::size_t n = 100;
  const auto p = static_cast<std::uint64_t>(ranks);
  const auto sums = on_ranks<Counting<Threads>>(ranks, [&](auto& world) {
    std::vector<float> x(n);
    std::vector<float> wide(n * p);
    world.broadcast(x, 1);
    world.reduce(x, x, 0);
    world.all_reduce(x);
    world.all_gather(x, wide);
    std::vector<std::uint64_t> elements{
        world.traffic()[CallKind::broadcast].elements,
        world.traffic()[CallKind::reduce].elements,
        world.traffic()[CallKind::all_reduce].elements,
        world.traffic()[CallKind::all_gather].elements,
        world.traffic().total().elements,
    };
    world.all_reduce(elements);
    return elements;
  });
  for (const auto& s : sums)
    CHECK(s == std::vector<std::uint64_t>{(p - 1) * n, (p - 1) * n, 2 * (p - 1) * n,
                                          p * (p - 1) * n, (p - 1) * n * (4 + p)});
}

}  // namespace cubist::test::testing_traffic_test
