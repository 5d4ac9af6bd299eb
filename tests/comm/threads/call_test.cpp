// SPDX-License-Identifier: BSD-3-Clause
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "cubist/comm/threads/call.hpp"

#include "catch.hpp"

namespace comm_threads_call_test
{

using namespace cubist;
using namespace cubist::detail;

namespace
{

constexpr std::size_t none = static_cast<std::size_t>(-1);

/// A call of several members, which one thread takes through their stages, in a given order.
template <class T>
struct OneThread
{
  OneThread(Collective c, std::size_t ranks, std::size_t count, int root, ReduceOp op)
      : in(ranks), out(ranks)
  {
    const bool message = c == Collective::send;
    call.from = message ? 0 : -1;
    call.to = message ? 1 : -1;
    call.signature = {{c, op, root, count, &element_name<T>}, sizeof(T), &combine_members<T>};
    call.members.resize(ranks);
    for (std::size_t r = 0; r < ranks; ++r)
    {
      for (std::size_t i = 0; i < count * ranks; ++i)
        in[r].push_back(static_cast<T>(100 * r + i + 1));
      out[r].resize(count * ranks);
      auto& m = call.members[r];
      m.call = &call;
      m.index = r;
      m.send = reinterpret_cast<const std::byte*>(in[r].data());
      m.recv = reinterpret_cast<std::byte*>(out[r].data());
      const bool source = message ? r == 0 : has_root(c) && r == static_cast<std::size_t>(root);
      const bool receives = message && r == 1;
      m.remaining = stages(receives ? Collective::receive : c, source);
      m.posted = true;
      signal(Gate::posted);
      if (source) signal(Gate::source);
    }
  }

  void signal(Gate g) { ++call.gates[static_cast<std::size_t>(g)]; }

  /// Takes each member through its open stages, from `first` on; whether all complete.
  bool run(std::size_t first)
  {
    for (bool moved = true; moved;)
    {
      moved = false;
      for (std::size_t k = 0; k < call.members.size(); ++k)
      {
        auto& m = call.members[(first + k) % call.members.size()];
        if (m.remaining.empty() || !call.open(m.remaining.front().waits_for)) continue;
        call.perform(m.remaining.front().work, m);
        if (m.remaining.front().signals != Gate::none) signal(m.remaining.front().signals);
        m.remaining = m.remaining.subspan(1);
        moved = true;
      }
    }
    for (const auto& m : call.members)
      if (!m.remaining.empty()) return false;
    return true;
  }

  ThreadCall call;
  std::vector<std::vector<T>> in;
  std::vector<std::vector<T>> out;
};

/// Element i of the input of rank r.
int element(std::size_t r, std::size_t i) { return static_cast<int>(100 * r + i + 1); }

}  // namespace

TEST_CASE("the stages of every collective complete it, with the right data")
{
  constexpr std::size_t ranks = 3;
  constexpr std::size_t n = 5;
  constexpr std::size_t root = 1;
  for (std::size_t first = 0; first < ranks; ++first)
  {
    CAPTURE(first);
    const auto run = [&](Collective c, std::size_t members) {
      OneThread<int> one{c, members, n, root, ReduceOp::sum};
      CAPTURE(to_string(c));
      CHECK(one.run(first));
      return std::move(one.out);
    };
    const auto sum = [](std::size_t i) { return element(0, i) + element(1, i) + element(2, i); };

    run(Collective::barrier, ranks);
    const auto broadcast = run(Collective::broadcast, ranks);
    const auto reduced = run(Collective::reduce, ranks);
    const auto gathered = run(Collective::gather, ranks);
    const auto scattered = run(Collective::scatter, ranks);
    const auto all_gathered = run(Collective::all_gather, ranks);
    const auto exchanged = run(Collective::all_to_all, ranks);
    const auto all_reduced = run(Collective::all_reduce, ranks);
    const auto reduce_scattered = run(Collective::reduce_scatter, ranks);
    const auto message = run(Collective::send, 2);
    for (std::size_t i = 0; i < n; ++i)
    {
      CHECK(reduced[root][i] == sum(i));
      CHECK(message[1][i] == element(0, i));
      for (std::size_t r = 0; r < ranks; ++r)
      {
        CHECK(broadcast[r][i] == (r == root ? 0 : element(root, i)));
        CHECK(scattered[r][i] == element(root, r * n + i));
        CHECK(all_reduced[r][i] == sum(i));
        CHECK(reduce_scattered[r][i] == sum(r * n + i));
        CHECK(gathered[root][r * n + i] == element(r, i));
        for (std::size_t to = 0; to < ranks; ++to)
        {
          CHECK(all_gathered[to][r * n + i] == element(r, i));
          CHECK(exchanged[to][r * n + i] == element(r, to * n + i));
        }
      }
    }
  }
}

TEST_CASE("no stage begins before its gate is open")
{
  // Without the last member, only the data of a source may be read.
  for (std::size_t c = 0; c < collective_count; ++c)
  {
    const auto collective = static_cast<Collective>(c);
    if (collective == Collective::send || collective == Collective::receive) continue;
    CAPTURE(to_string(collective));
    OneThread<int> one{collective, 3, 2, 0, ReduceOp::sum};
    one.call.members[2].remaining = {};
    --one.call.gates[static_cast<std::size_t>(Gate::posted)];
    CHECK_FALSE(one.run(0));
    CHECK_FALSE(one.call.open(Gate::posted));
  }
}

TEST_CASE("shares of a reduction cover it once")
{
  for (std::size_t ranks = 1; ranks <= 9; ++ranks)
    for (std::size_t n = 0; n <= 40; ++n)
    {
      ThreadCall call;
      call.members.resize(ranks);
      call.signature.count = n;
      std::size_t next = 0;
      std::size_t least = none;
      std::size_t most = 0;
      for (std::size_t r = 0; r < ranks; ++r)
      {
        const auto [begin, size] = call.share(r);
        REQUIRE(begin == next);
        next += size;
        least = std::min(least, size);
        most = std::max(most, size);
      }
      REQUIRE(next == n);
      REQUIRE(most - least <= 1);
    }
}

TEST_CASE("messages name the ranks of a call, or the two ends of a message")
{
  ThreadContext context{nullptr, {5, 3}, {}, {}};
  ThreadCall call;
  call.context = &context;
  CHECK(call.where() == " on ranks {5, 3}");
  call.from = 0;
  call.to = 1;
  call.members.resize(2);
  call.members[0].world_rank = 5;
  call.members[1].world_rank = 3;
  CHECK(call.where() == " from rank 5 to rank 3");
}

TEST_CASE("sums begin with rank 0 or, of a reduce, with the successor of the root")
{
  const std::size_t n = GENERATE(1U, 513U, 2000U);
  const int root = GENERATE(-1, 0, 1, 3);  // -1: of an all_reduce
  const std::size_t ranks = 4;
  const auto begin = static_cast<std::size_t>(root + 1);
  OneThread<float> one{root < 0 ? Collective::all_reduce : Collective::reduce, ranks, n,
                       root < 0 ? 0 : root, ReduceOp::sum};
  for (std::size_t r = 0; r < ranks; ++r)
    for (std::size_t i = 0; i < n; ++i)
      one.in[r][i] = std::ldexp(r % 2 == 0 ? 1.1F : -1.3F, static_cast<int>((5 * i + 7 * r) % 31));
  const auto sum = [&](std::size_t i, std::size_t first) {
    const auto x = [&](std::size_t step) { return one.in[(first + step) % ranks][i]; };
    return ((x(0) + x(1)) + x(2)) + x(3);
  };
  std::vector<float> expected(n);
  std::vector<float> otherwise(n);
  for (std::size_t i = 0; i < n; ++i)
  {
    expected[i] = sum(i, begin);
    otherwise[i] = sum(i, begin + 1);
  }
  if (n > 1) REQUIRE(expected != otherwise);  // or the order would not matter here

  std::vector<float> got(n);
  combine_members<float>(one.call, 0, n, reinterpret_cast<std::byte*>(got.data()));
  CHECK(got == expected);

  // From the middle, in place on one of the ranks.
  const std::size_t from = n / 3;
  auto* in_place = one.in[2].data() + from;
  combine_members<float>(one.call, from, n - from, reinterpret_cast<std::byte*>(in_place));
  for (std::size_t i = from; i < n; ++i) REQUIRE(one.in[2][i] == expected[i]);
}

TEST_CASE("minimum and maximum")
{
  OneThread<std::int8_t> least{Collective::all_reduce, 3, 2, 0, ReduceOp::min};
  least.in = {{-5, 100}, {3, 127}, {-128, 50}};
  for (std::size_t r = 0; r < 3; ++r)
    least.call.members[r].send = reinterpret_cast<const std::byte*>(least.in[r].data());
  CHECK(least.run(0));
  CHECK(least.out[1][0] == -128);
  CHECK(least.out[1][1] == 50);

  OneThread<double> most{Collective::all_reduce, 3, 2, 0, ReduceOp::max};
  most.in = {{-5, 1e300}, {3, -1}, {-128, std::numeric_limits<double>::infinity()}};
  for (std::size_t r = 0; r < 3; ++r)
    most.call.members[r].send = reinterpret_cast<const std::byte*>(most.in[r].data());
  CHECK(most.run(0));
  CHECK(most.out[2][0] == 3);
  CHECK(most.out[2][1] == std::numeric_limits<double>::infinity());
}

}  // namespace comm_threads_call_test
