// SPDX-License-Identifier: BSD-3-Clause
#include <map>

#include "cubist/simulation/activities.hpp"

#include "catch.hpp"

namespace cubist::test::simulation_activities_test
{

using cubist::detail::Activities;
using cubist::detail::ResourceUse;

struct Request
{
  char name;
  double start;
  double seconds;
  std::vector<ResourceUse> uses;
};

/// The time at which each activity ends.
static std::map<char, double> ends_of(const std::vector<Request>& requests, std::size_t links = 0)
{
  std::map<char, double> ends;
  Activities all{4, links};
  for (const auto& r : requests)
    all.start(r.start, r.seconds, r.uses, [&ends, &r](double time) { ends[r.name] = time; });
  while (all.next() < Activities::never) all.step();
  return ends;
}

TEST_CASE("an activity alone takes its own time")
{
  CHECK(ends_of({{'a', 1, 2, {{0, 1.0}}}}) == std::map<char, double>{{'a', 3}});
  CHECK(ends_of({{'a', 1, 2, {}}}) == std::map<char, double>{{'a', 3}});
  CHECK(ends_of({{'a', 1, 0, {{0, 1.0}}}}) == std::map<char, double>{{'a', 1}});
}

TEST_CASE("activities on different resources do not slow each other down")
{
  CHECK(ends_of({{'a', 0, 2, {{0, 1.0}}}, {'b', 0, 3, {{1, 1.0}}}}) ==
        std::map<char, double>{{'a', 2}, {'b', 3}});
}

TEST_CASE("two activities that want all of a resource take twice as long")
{
  const auto ends = ends_of({{'a', 0, 2, {{0, 1.0}}}, {'b', 0, 2, {{0, 1.0}}}});
  CHECK(ends.at('a') == Approx(4));
  CHECK(ends.at('b') == Approx(4));
}

TEST_CASE("when one activity ends, the others speed up")
{
  // Until 2 both run at half speed; then b has 2 of its 3 seconds left.
  const auto ends = ends_of({{'a', 0, 1, {{0, 1.0}}}, {'b', 0, 3, {{0, 1.0}}}});
  CHECK(ends.at('a') == Approx(2));
  CHECK(ends.at('b') == Approx(4));
}

TEST_CASE("an activity that starts later slows down those that run")
{
  const auto ends = ends_of({{'a', 0, 2, {{0, 1.0}}}, {'b', 1, 1, {{0, 1.0}}}});
  CHECK(ends.at('a') == Approx(3));
  CHECK(ends.at('b') == Approx(3));
}

TEST_CASE("parts of a resource that fit together slow nobody down")
{
  const auto ends =
      ends_of({{'a', 0, 2, {{0, 0.5}}}, {'b', 0, 2, {{0, 0.25}}}, {'c', 0, 2, {{0, 0.25}}}});
  for (const auto& [_, end] : ends) CHECK(end == Approx(2));
}

TEST_CASE("an activity that wants less than a fair share gets it, and others share the rest")
{
  const auto ends =
      ends_of({{'a', 0, 2, {{0, 0.2}}}, {'b', 0, 2, {{0, 1.0}}}, {'c', 0, 2, {{0, 1.0}}}});
  CHECK(ends.at('a') == Approx(2));
  // b and c each have 0.4 of the resource for 2 s, and then half of it.
  CHECK(ends.at('b') == Approx(4.4));
  CHECK(ends.at('c') == Approx(4.4));
  // Both have half of it until b has finished.
  const auto two = ends_of({{'a', 0, 2, {{0, 0.9}}}, {'b', 0, 2, {{0, 0.6}}}});
  CHECK(two.at('b') == Approx(2.4));
  CHECK(two.at('a') == Approx(2.4 + 2 - 2.4 / 1.8));
}

TEST_CASE("the most wanted resource sets the speed")
{
  // a shares resource 0 with b and resource 1 with c and d.
  const auto ends = ends_of({{'a', 0, 1, {{0, 1.0}, {1, 1.0}}},
                             {'b', 0, 10, {{0, 1.0}}},
                             {'c', 0, 10, {{1, 1.0}}},
                             {'d', 0, 10, {{1, 1.0}}}});
  CHECK(ends.at('a') == Approx(3));
}

TEST_CASE("work is conserved: a resource that is wanted is used")
{
  // 10 activities of one second each, which arrive while others run, together need 10 seconds.
  std::vector<Request> requests;
  for (int i = 0; i < 10; ++i)
    requests.push_back({static_cast<char>('a' + i), 0.37 * i, 1, {{0, 1.0}}});
  double last = 0;
  for (const auto& [_, end] : ends_of(requests)) last = std::max(last, end);
  CHECK(last == Approx(10));
}

struct Transfer
{
  double start, seconds;
  std::vector<ResourceUse> uses;
};

/// The time at which each transfer ends, on links.
static std::vector<double> ends_of_transfers(const std::vector<Transfer>& transfers,
                                             std::size_t links)
{
  std::vector<double> ends(transfers.size(), -1);
  Activities all{links, links};
  for (std::size_t i = 0; i < ends.size(); ++i)
    all.start(transfers[i].start, transfers[i].seconds, transfers[i].uses,
              [&end = ends[i]](double time) { end = time; });
  while (all.next() < Activities::never) all.step();
  return ends;
}

/// The time at which each transfer ends, found by looking at all transfers whenever one begins or
/// ends.
/// @pre they are in the order of their starts
static std::vector<double> slowly_found_ends_of(const std::vector<Transfer>& transfers,
                                                std::size_t links)
{
  std::vector<double> ends(transfers.size(), -1), remaining, speeds(transfers.size());
  for (const auto& t : transfers) remaining.push_back(t.seconds);
  for (double now = 0;;)
  {
    std::vector<double> left(links, 1);
    double next = Activities::never;
    for (std::size_t i = 0; i < ends.size(); ++i)
    {
      speeds[i] = 0;
      if (transfers[i].start > now) next = std::min(next, transfers[i].start);
      if (transfers[i].start > now || ends[i] >= 0) continue;
      double speed = 1;
      for (const auto& use : transfers[i].uses)
        speed = std::min(speed, left[static_cast<std::size_t>(use.resource)] / use.part);
      speeds[i] = speed > 1e-6 ? speed : 0;
      for (const auto& use : transfers[i].uses)
        left[static_cast<std::size_t>(use.resource)] -= use.part * speeds[i];
      if (speeds[i] > 0) next = std::min(next, now + remaining[i] / speeds[i]);
    }
    if (next == Activities::never) return ends;
    for (std::size_t i = 0; i < ends.size(); ++i)
    {
      remaining[i] -= (next - now) * speeds[i];
      if (speeds[i] > 0 && remaining[i] < 1e-9) ends[i] = next;
    }
    now = next;
  }
}

TEST_CASE("transfers that share several links end as if all were looked at whenever one does")
{
  for (std::uint64_t seed = 0; seed < 20; ++seed)
  {
    std::uint64_t state = seed;
    const auto draw = [&](std::size_t n) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      return static_cast<std::size_t>(state >> 33U) % n;
    };
    constexpr std::size_t links = 6;
    std::vector<Transfer> transfers;
    for (std::size_t i = 0; i < 60; ++i)
    {
      const int from = static_cast<int>(draw(links));
      const int to = static_cast<int>(draw(links));
      std::vector<ResourceUse> uses{{from, 1 / static_cast<double>(1 + draw(3))}};
      if (to != from) uses.push_back({to, 1 / static_cast<double>(1 + draw(3))});
      const double start = i == 0 ? 0 : transfers.back().start + 0.3 * double(draw(3));
      transfers.push_back({start, 0.7 * static_cast<double>(1 + draw(5)), uses});
    }
    const auto wanted = slowly_found_ends_of(transfers, links);
    const auto ends = ends_of_transfers(transfers, links);
    CAPTURE(seed);
    for (std::size_t i = 0; i < ends.size(); ++i) CHECK(ends[i] == Approx(wanted[i]));
  }
}

TEST_CASE("an exchange between all ranks takes no longer than the messages of one")
{
  constexpr int ranks = 64;
  std::vector<Transfer> messages;
  for (int i = 0; i < ranks; ++i)
    for (int k = 0; k < ranks; ++k)
      messages.push_back({0, 1, {{i, 1.0}, {ranks + (i + k) % ranks, 1.0}}});
  const auto ends = ends_of_transfers(messages, std::size_t{2} * ranks);
  for (std::size_t m = 0; m < ends.size(); ++m) CHECK(ends[m] == Approx(1 + m % ranks));
}

TEST_CASE("links serve activities in the order in which they began")
{
  const std::map<char, double> wanted{{'a', 4}, {'b', 8}, {'c', 10}};
  CHECK(ends_of({{'a', 0, 4, {{0, 1}}}, {'b', 1, 4, {{0, 1}}}, {'c', 2, 2, {{0, 1}}}}, 4) ==
        wanted);
}

TEST_CASE("what a link's first activity leaves goes to the next one")
{
  // c wants all of link 1, but a leaves it half; c is served before b on link 0.
  const auto ends =
      ends_of({{'a', 0, 4, {{0, 0.5}, {1, 0.5}}}, {'b', 0, 2, {{0, 1}}}, {'c', 0, 3, {{1, 1}}}}, 4);
  CHECK(ends == std::map<char, double>{{'a', 4}, {'b', 4}, {'c', 5}});
}

TEST_CASE("an activity that its link holds up leaves another link to later ones")
{
  // b waits for a on link 0, so c has link 1 until then.
  const auto ends =
      ends_of({{'a', 0, 4, {{0, 1}}}, {'b', 0, 2, {{0, 1}, {1, 1}}}, {'c', 0, 6, {{1, 1}}}}, 4);
  CHECK(ends == std::map<char, double>{{'a', 4}, {'b', 6}, {'c', 8}});
}

TEST_CASE("an activity takes as much of the cores as its link allows")
{
  // Transfers a and b, one after the other on link 0, take half of the cores, which is a fair
  // share. Computation c has the rest.
  const auto ends = ends_of(
      {{'a', 0, 4, {{0, 1}, {2, 0.5}}}, {'b', 0, 4, {{0, 1}, {2, 0.5}}}, {'c', 0, 6, {{2, 1}}}}, 2);
  CHECK(ends == std::map<char, double>{{'a', 4}, {'b', 8}, {'c', 10}});
}

}  // namespace cubist::test::simulation_activities_test
