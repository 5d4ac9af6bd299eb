// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Counts the elements that ranks send in calls, on a backend Counting<…>.

#include <cstdint>
#include <vector>

namespace cubist::test
{

/// The elements that this rank sends in a call.
template <class World, class F>
[[nodiscard]] std::uint64_t sent_in(World& world, F&& call)
{
  const std::uint64_t before = world.traffic().total().elements;
  call();
  return world.traffic().total().elements - before;
}

/// The elements that all ranks send, of what each rank sends.
[[nodiscard]] inline std::uint64_t sum(const std::vector<std::uint64_t>& ranks)
{
  std::uint64_t all = 0;
  for (const std::uint64_t sent : ranks) all += sent;
  return all;
}

/// The elements sent in forward and in backward.
struct SentByPasses
{
  std::uint64_t forward = 0;
  std::uint64_t backward = 0;
};
[[nodiscard]] inline SentByPasses sum(const std::vector<SentByPasses>& ranks)
{
  SentByPasses all;
  for (const auto& sent : ranks) all.forward += sent.forward, all.backward += sent.backward;
  return all;
}

}  // namespace cubist::test
