// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Compares what ranks send and allocate in simulated time with what they do as threads.

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <vector>

#include "cubist/backend/simulated.hpp"

#include "counted_memory.hpp"
#include "ranks.hpp"

namespace cubist::test
{

/// What a rank has sent, and its peak memory in bytes.
struct Needed
{
  Traffic traffic{};
  std::size_t peak = 0;
};

/// What each rank needs for body(world), if it counts that: Counting<…> its traffic, and
/// CountedThreads its memory.
template <class B, class Body>
std::vector<Needed> needed(int ranks, const Body& body)
{
  return on_ranks<B>(ranks, [&](typename B::Communicator& world) {
    counted_bytes = {};
    body(world);
    Needed mine{.peak = counted_bytes.peak};
    if constexpr (requires { world.traffic(); }) mine.traffic = world.traffic();
    return mine;
  });
}

/// Returns the peak memory of any rank, in bytes, during body(world), as threads or in simulated
/// time.
template <class B, class Body>
double peak_memory(int ranks, const Body& body)
{
  std::size_t peak = 0;
  for (const Needed& rank : needed<B>(ranks, body)) peak = std::max(peak, rank.peak);
  if (std::is_same_v<B, Simulated>) peak = Simulated::report().peak_memory();
  return static_cast<double>(peak);
}

/// Asserts that the ranks of the last simulated launch allocated what real ones did, within a
/// twentieth.
inline void check_simulated_memory(const std::vector<Needed>& real)
{
  for (std::size_t r = 0; r < real.size(); ++r)
  {
    CAPTURE(r);
    CHECK(real[r].peak > 0);
    CHECK(double(Simulated::report().ranks[r].peak_memory) ==
          Approx(double(real[r].peak)).epsilon(0.05));
  }
}

/// Asserts that they also sent what real ones did.
inline void check_simulated(const std::vector<Needed>& real)
{
  for (std::size_t r = 0; r < real.size(); ++r)
    for (std::size_t c = 0; c < call_kind_count; ++c)
    {
      const auto kind = static_cast<CallKind>(c);
      CAPTURE(r, to_string(kind));
      CHECK(Simulated::report().ranks[r].traffic[kind] == real[r].traffic[kind]);
    }
  check_simulated_memory(real);
}

}  // namespace cubist::test
