// SPDX-License-Identifier: BSD-3-Clause
// Marks exercise 1. The numbers of rank s are 1000^s times 1 to 7, so a sum tells how many times it
// counts each rank.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <cubist/engine/span.hpp>

#include "mark.hpp"

namespace course
{

namespace all_reduce
{

using AllReduce = void (*)(World&, std::span<std::int64_t>);
using Numbers = std::vector<std::int64_t>;

constexpr std::int64_t base = 1000;

inline std::int64_t factor(std::size_t i) { return static_cast<std::int64_t>(i % 7 + 1); }

struct Sums
{
  std::vector<Numbers> numbers;  // of each rank
  std::vector<cubist::Traffic> sent;
};

inline Sums run(int ranks, std::size_t n, AllReduce answer)
{
  Sums sums;
  sums.numbers.resize(static_cast<std::size_t>(ranks));
  sums.sent.resize(static_cast<std::size_t>(ranks));
  cubist::launch<Backend>(on(ranks), [&](World& world) {
    const auto rank = static_cast<std::size_t>(world.rank());
    Numbers& mine = sums.numbers[rank];
    std::int64_t value = 1;
    for (std::size_t r = 0; r < rank; ++r) value *= base;
    for (std::size_t i = 0; i < n; ++i) mine.push_back(factor(i) * value);
    world.barrier();
    world.traffic().reset();
    {
      const Backend::Engine engine;
      const cubist::Span span{engine, {"your all_reduce", n}};
      answer(world, mine);
    }
    sums.sent[rank] = world.traffic();
  });
  return sums;
}

inline void judge(int ranks, std::size_t n, const Sums& sums)
{
  std::int64_t one_each = 0;
  for (int r = 0; r < ranks; ++r) one_each = one_each * base + 1;
  for (std::size_t rank = 0; rank < sums.numbers.size(); ++rank)
  {
    const cubist::Sent messages = sums.sent[rank][cubist::CallKind::send];
    need(sums.sent[rank].total() == messages, "rank ", rank,
         " calls one of the library's collectives, but the exercise is to build one; use send, "
         "receive and their asynchronous forms");
    for (std::size_t i = 0; i < n; ++i)
    {
      const std::int64_t got = sums.numbers[rank][i];
      if (got == factor(i) * one_each) continue;
      const auto times = got % factor(i) == 0
                             ? digits(got / factor(i), base, static_cast<std::size_t>(ranks))
                             : Numbers{};
      need(!times.empty(), "on ", count_text(sums.numbers.size(), "rank"), " with ",
           count_text(n, "number"), ", numbers[", i, "] on rank ", rank, " is ", got,
           ", which is not a sum of ranks' numbers[", i, "], but must be ", factor(i) * one_each,
           "; check which part of the numbers each message carries");
      need(false, "on ", count_text(sums.numbers.size(), "rank"), " with ", count_text(n, "number"),
           ", numbers[", i, "] on rank ", rank, " counts ", wrong_terms(times, "rank"),
           ", but must count each rank once; follow the messages that carry it to rank ", rank);
    }
  }
  std::cout << "  right on " << count_text(sums.numbers.size(), "rank") << " with "
            << count_text(n, "number") << std::endl;
}

}  // namespace all_reduce

int check_all_reduce(int argc, char** argv, all_reduce::AllReduce answer)
{
  using namespace all_reduce;
  constexpr auto hint =
      "begin with a ring. In each of P - 1 steps a rank sends the numbers that it received last, "
      "at first its own, to rank + 1, receives from rank - 1, and adds. It starts to send by "
      "async_send, receives, and only then waits for its request. An answer that sends less has two "
      "passes: part i of the numbers starts at rank i in the first, is complete on rank i - 1, and "
      "starts there in the second.";
  return mark("Exercise 1: an all_reduce from messages", hint, [&] {
    struct Case
    {
      int ranks;
      std::size_t numbers;
    };
    for (const auto& [ranks, n] : {Case{1, 5}, Case{2, 5}, Case{3, 2}, Case{4, 7}, Case{5, 12}})
      judge(ranks, n, run(ranks, n, answer));

    constexpr int ranks = 4;
    constexpr std::uint64_t n = 120'000;
    trace_to(argc, argv);
    const Sums sums = run(ranks, n, answer);
    judge(ranks, n, sums);
    std::uint64_t most = 0;
    for (const auto& sent : sums.sent) most = std::max(most, sent.total().elements);
    std::cout << "  the busiest of " << ranks << " ranks sends " << most << " numbers for " << n
              << "; the least possible is " << 2 * (ranks - 1) * n / ranks << std::endl;
  });
}

}  // namespace course
