// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/backend/threads.hpp"
#include "cubist/comm/threads/group.hpp"

#include "ranks.hpp"

namespace cubist::test::comm_threads_group_test
{

// Here one thread makes the calls of all ranks; communicator_test.cpp has a thread for each.

using namespace cubist::detail;

struct Two
{
  std::shared_ptr<ThreadScheduler> scheduler = std::make_shared<ThreadScheduler>(6);
  std::shared_ptr<ThreadGroup> group = std::make_shared<ThreadGroup>(scheduler, std::vector{5, 3});

  ThreadMember& sum(int rank, std::vector<int>& x)
  {
    return group->post(
        rank, Call<int>{.kind = CallKind::all_reduce, .send = x, .recv = x, .count = x.size()});
  }
};

TEST_CASE_METHOD(Two, "a call is complete once all ranks have advanced through their stages")
{
  constexpr std::size_t n = 1025;  // more than a call copies
  std::vector<int> a(n, 1);
  std::vector<int> b(n, 10);
  auto& zero = sum(0, a);
  CHECK(zero.world_rank == 5);
  CHECK_FALSE(zero.advance());
  CHECK(
      mentions(zero.describe(),
               "all_reduce of 1025 int32 by sum on ranks {5, 3}, which ranks {3} have not called"));

  auto& one = sum(1, b);
  CHECK(one.world_rank == 3);
  CHECK_FALSE(zero.advance());  // its share is reduced, but not that of rank 1
  CHECK(mentions(zero.describe(), "which ranks {3} have not completed"));
  CHECK_FALSE(one.advance());
  CHECK(zero.advance());
  CHECK(one.advance());
  CHECK(a == std::vector<int>(n, 11));
  CHECK(b == a);
}

TEST_CASE_METHOD(Two, "a rank leaves a call of small blocks as soon as all have posted theirs")
{
  std::vector<int> a(1024, 1);
  std::vector<int> b(1024, 10);
  auto& zero = sum(0, a);
  CHECK_FALSE(zero.advance());
  auto& one = sum(1, b);
  CHECK(zero.advance());
  CHECK(a == std::vector<int>(1024, 11));
  a.assign(a.size(), -1);  // rank 1 reads a copy
  CHECK(one.advance());
  CHECK(b == std::vector<int>(1024, 11));
}

TEST_CASE("calls give the same results with blocks that they copy and with those that they do not")
{
  const std::size_t n = GENERATE(0U, 1U, 170U, 171U, 512U, 513U, 3000U);  // 512 have 4096 bytes
  const auto right = results_of<bool, Threads>(3, [n](auto& world) {
    const auto me = static_cast<std::size_t>(world.rank());
    const auto value = [n](std::size_t rank, std::size_t i) { return double(rank * 7 * n + i); };
    const auto sum = [value](std::size_t i) { return value(0, i) + value(1, i) + value(2, i); };
    std::vector<double> mine(3 * n), all(3 * n), piece(n);
    for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = value(me, i);
    const std::span<const double> block{mine.data(), n};
    const auto equals = [](std::span<const double> x, const auto& expected) {
      for (std::size_t i = 0; i < x.size(); ++i)
        if (x[i] != expected(i)) return false;
      return true;
    };

    world.all_gather(block, std::span{all});
    bool same = equals(all, [&](std::size_t i) { return value(i / n, i % n); });
    world.all_to_all(std::span<const double>{mine}, std::span{all});
    same &= equals(all, [&](std::size_t i) { return value(i / n, me * n + i % n); });
    world.reduce_scatter(std::span<const double>{mine}, std::span{piece});
    same &= equals(piece, [&](std::size_t i) { return sum(me * n + i); });
    std::copy_n(mine.begin(), n, piece.begin());
    world.all_reduce(std::span{piece});
    return same && equals(piece, sum);
  });
  CHECK(right == std::vector<bool>{true, true, true});
}

TEST_CASE_METHOD(Two, "calls are matched by their order, and a completed one is reused")
{
  std::vector<int> a{1};
  std::vector<int> b{2};
  std::vector<int> c{3};
  std::vector<int> d{4};
  auto& a0 = sum(0, a);
  auto& b0 = sum(0, b);
  CHECK(a0.call != b0.call);
  auto& c1 = sum(1, c);
  auto& d1 = sum(1, d);
  CHECK(c1.call == a0.call);
  CHECK(d1.call == b0.call);
  for (auto* m : {&b0, &d1, &b0, &d1}) m->advance();
  CHECK(b[0] == 6);
  CHECK(a[0] == 1);

  const auto* completed = b0.call;
  group->release(b0);
  group->release(d1);
  std::vector<int> e{5};
  CHECK(sum(0, e).call == completed);
}

TEST_CASE_METHOD(Two, "a rank that leaves early revokes the call")
{
  std::vector<int> a{1};
  std::vector<int> b{2};
  auto& zero = sum(0, a);
  const bool after = GENERATE(true, false);
  if (after) sum(1, b);
  group->abandon(zero);
  auto& one = after ? zero.call->members[1] : sum(1, b);
  const auto text = message_of<PeerFailed>([&] { one.advance(); });
  CHECK(mentions(text, "rank 5 left all_reduce of 1 int32 by sum on ranks {5, 3}",
                 "so rank 3 cannot complete it", "look for the error of that rank"));
  CHECK(b[0] == 2);
}

TEST_CASE_METHOD(Two, "a mismatch fails all ranks")
{
  std::vector<int> a{1};
  std::vector<int> b{1, 2};
  sum(0, a);
  const auto text = message_of<CollectiveMismatch>([&] { sum(1, b); });
  CHECK(mentions(text, "rank 3 called all_reduce of 2 int32 by sum",
                 "rank 5 called all_reduce of 1 int32 by sum", "as call 0 on ranks {5, 3}"));
  CHECK_THROWS_WITH(scheduler->raise(), text);
  CHECK_THROWS_WITH(sum(0, a), text);
}

TEST_CASE_METHOD(Two, "messages are matched by their ends and order, apart from collectives")
{
  std::vector<int> a{1};
  std::vector<int> x{7, 8};
  std::vector<int> y{9};
  std::vector<int> got_x(2);
  std::vector<int> got_y(1);
  const auto send = [&](std::vector<int>& data) -> ThreadMember& {
    return group->post(0, Call<int>{CallKind::send, data, {}, data.size(), 1});
  };
  const auto receive = [&](std::vector<int>& data) -> ThreadMember& {
    return group->post(1, Call<int>{CallKind::receive, {}, data, data.size(), 0});
  };
  auto& collective = sum(0, a);
  auto& r0 = receive(got_x);
  CHECK(mentions(r0.describe(),
                 "receive of 2 int32 from rank 5 to rank 3, which ranks {5} have not called"));
  auto& s0 = send(x);
  auto& s1 = send(y);
  auto& r1 = receive(got_y);
  CHECK(mentions(s1.describe(), "send of 1 int32 from rank 5 to rank 3"));
  CHECK(s0.call == r0.call);
  CHECK(s1.call == r1.call);
  CHECK(collective.call != s0.call);
  CHECK(r1.advance());
  CHECK(s1.advance());
  CHECK_FALSE(s0.advance());
  CHECK(r0.advance());
  CHECK(s0.advance());
  CHECK(got_x == x);
  CHECK(got_y == y);
}

}  // namespace cubist::test::comm_threads_group_test
