// SPDX-License-Identifier: BSD-3-Clause
#include <utility>

#include "cubist/comm/group/call.hpp"

#include "catch.hpp"

namespace cubist::test::comm_group_call_test
{

using namespace cubist::detail;

constexpr std::size_t none = static_cast<std::size_t>(-1);

struct OneCall;

struct OneMember : GroupMember<OneCall>
{
  std::span<const Stage> remaining;
};

struct OneCall : GroupCall<OneMember>
{
};

TEST_CASE("shares of a reduction cover it once")
{
  for (std::size_t ranks = 1; ranks <= 9; ++ranks)
    for (std::size_t n = 0; n <= 40; ++n)
    {
      OneCall call;
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

/// A call of several members. One thread takes them through their stages in a given order.
template <class T>
struct OneThread
{
  OneThread(CallKind c, std::size_t ranks, std::size_t count, int root, ReduceOp op)
      : in(ranks),
        out(ranks)
  {
    const bool message = c == CallKind::send;
    call.from = message ? 0 : -1;
    call.to = message ? 1 : -1;
    call.signature = Call<T>{.kind = c, .count = count, .peer = root, .op = op};
    call.members.resize(ranks);
    call.summands.resize(ranks);
    for (std::size_t r = 0; r < ranks; ++r)
    {
      for (std::size_t i = 0; i < count * ranks; ++i)
        in[r].push_back(static_cast<T>(100 * r + i + 1));
      out[r].resize(count * ranks);
      auto& m = call.members[r];
      m.call = &call;
      m.index = r;
      ErasedCall mine = call.signature;
      mine.send = reinterpret_cast<const std::byte*>(in[r].data());
      mine.recv = reinterpret_cast<std::byte*>(out[r].data());
      m.remaining = call.stages_of(m);
      call.add(m, mine);
    }
  }

  /// Sets the first elements of each member's input.
  void set(const std::vector<std::vector<T>>& values)
  {
    for (std::size_t r = 0; r < values.size(); ++r)
      std::copy(values[r].begin(), values[r].end(), in[r].begin());
  }

  /// Takes each member through its open stages, starting with `first`. Returns whether all are
  /// complete.
  bool run(std::size_t first)
  {
    for (bool moved = true; moved;)
    {
      moved = false;
      for (std::size_t k = 0; k < call.members.size(); ++k)
      {
        auto& m = call.members[(first + k) % call.members.size()];
        if (m.remaining.empty() || !call.open(m.remaining.front().waits_for)) continue;
        call.perform(m.remaining.front().work, m, DirectMemory{});
        if (m.remaining.front().signals != Gate::none) call.pass(m.remaining.front().signals);
        m.remaining = m.remaining.subspan(1);
        moved = true;
      }
    }
    for (const auto& m : call.members)
      if (!m.remaining.empty()) return false;
    return true;
  }

  OneCall call;
  std::vector<std::vector<T>> in;
  std::vector<std::vector<T>> out;
};

/// Element i of the input of rank r.
static int element(std::size_t r, std::size_t i) { return static_cast<int>(100 * r + i + 1); }

TEST_CASE("the stages of every collective complete it, with the right data")
{
  constexpr std::size_t ranks = 3;
  constexpr std::size_t n = 5;
  constexpr std::size_t root = 1;
  for (std::size_t first = 0; first < ranks; ++first)
  {
    CAPTURE(first);
    const auto run = [&](CallKind c, std::size_t members) {
      OneThread<int> one{c, members, n, root, ReduceOp::sum};
      CAPTURE(to_string(c));
      CHECK(one.run(first));
      return std::move(one.out);
    };
    const auto sum = [](std::size_t i) { return element(0, i) + element(1, i) + element(2, i); };

    run(CallKind::barrier, ranks);
    const auto broadcast = run(CallKind::broadcast, ranks);
    const auto reduced = run(CallKind::reduce, ranks);
    const auto gathered = run(CallKind::gather, ranks);
    const auto scattered = run(CallKind::scatter, ranks);
    const auto all_gathered = run(CallKind::all_gather, ranks);
    const auto exchanged = run(CallKind::all_to_all, ranks);
    const auto all_reduced = run(CallKind::all_reduce, ranks);
    const auto reduce_scattered = run(CallKind::reduce_scatter, ranks);
    const auto message = run(CallKind::send, 2);
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
  // Without the last member, only a source's data may be read.
  for (std::size_t c = 0; c < call_kind_count; ++c)
  {
    const auto collective = static_cast<CallKind>(c);
    if (collective == CallKind::send || collective == CallKind::receive) continue;
    CAPTURE(to_string(collective));
    OneThread<int> one{collective, 3, 2, 0, ReduceOp::sum};
    one.call.members[2].remaining = {};
    --one.call.gates[static_cast<std::size_t>(Gate::posted)];
    CHECK_FALSE(one.run(0));
    CHECK_FALSE(one.call.open(Gate::posted));
  }
}

TEST_CASE("messages name the ranks of a call, or the two ends of a message")
{
  const std::vector<int> ranks{5, 3};
  OneCall call;
  call.ranks = &ranks;
  CHECK(call.where() == " on ranks {5, 3}");
  call.from = 0;
  call.to = 1;
  call.members.resize(2);
  call.members[0].world_rank = 5;
  call.members[1].world_rank = 3;
  CHECK(call.where() == " from rank 5 to rank 3");
}

TEST_CASE("a call says who has not called it, who left it, and why a call does not match")
{
  OneThread<int> one{CallKind::all_reduce, 2, 4, 0, ReduceOp::sum};
  OneCall& call = one.call;
  const std::vector<int> ranks{5, 3};
  call.ranks = &ranks;
  call.members[0].world_rank = call.first_rank = 5;
  call.members[1].world_rank = 3;
  const std::string what = "all_reduce of 4 int32 by sum on ranks {5, 3}";
  CHECK(call.describe(call.members[0], {}) == what + ", which another rank has not completed");
  CHECK(call.describe(call.members[0], {3}) == what + ", which ranks {3} have not completed");
  call.members[1].posted = false;
  CHECK(call.missing() == std::vector{3});
  CHECK(call.describe(call.members[0], {}) == what + ", which ranks {3} have not called");
  call.left_by = 5;
  CHECK(call.left_error(call.members[1]).what() ==
        "rank 5 left " + what +
            " before its end, so rank 3 cannot complete it; look for the error of that rank");
  const auto other = CallSignature::of(Call<float>{.kind = CallKind::all_gather});
  CHECK(call.mismatch(other, other.kind, 3) ==
        "rank 3 called all_gather of 0 float, but rank 5 called all_reduce of 4 int32 by sum as "
        "call 0 on ranks {5, 3}, so neither can complete; let all its ranks make the same calls in "
        "the same order, with the same element type, size, root and operation");
}

TEST_CASE("sums begin with rank 0 or, of a reduce, with the successor of the root")
{
  const std::size_t n = GENERATE(1U, 513U, 2000U);
  const int root = GENERATE(-1, 0, 1, 3);  // -1 stands for an all_reduce
  const std::size_t ranks = 4;
  const auto begin = static_cast<std::size_t>(root + 1);
  OneThread<float> one{root < 0 ? CallKind::all_reduce : CallKind::reduce, ranks, n,
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
  if (n > 1) REQUIRE(expected != otherwise);  // otherwise the order would not matter

  std::vector<float> got(n);
  const auto combine = [&](std::size_t first, std::size_t count, float* out) {
    DirectMemory::combine(one.call.signature, one.call.summands, first, count,
                          reinterpret_cast<std::byte*>(out));
  };
  combine(0, n, got.data());
  CHECK(got == expected);

  // Starts in the middle, in place on one of the ranks.
  const std::size_t from = n / 3;
  auto* in_place = one.in[2].data() + from;
  combine(from, n - from, in_place);
  for (std::size_t i = from; i < n; ++i) REQUIRE(one.in[2][i] == expected[i]);
}

TEST_CASE("minimum and maximum")
{
  OneThread<std::int8_t> least{CallKind::all_reduce, 3, 2, 0, ReduceOp::min};
  least.set({{-5, 100}, {3, 127}, {-128, 50}});
  CHECK(least.run(0));
  CHECK(least.out[1][0] == -128);
  CHECK(least.out[1][1] == 50);

  OneThread<double> most{CallKind::all_reduce, 3, 2, 0, ReduceOp::max};
  most.set({{-5, 1e300}, {3, -1}, {-128, std::numeric_limits<double>::infinity()}});
  CHECK(most.run(0));
  CHECK(most.out[2][0] == 3);
  CHECK(most.out[2][1] == std::numeric_limits<double>::infinity());
}

}  // namespace cubist::test::comm_group_call_test
