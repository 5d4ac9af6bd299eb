// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Answers to exercise 3: one that is right, and some that are wrong.

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>

#include "course.hpp"

namespace answers
{

inline std::uint64_t sent_by_all(course::World& world)
{
  std::array<std::uint64_t, 1> sent{world.traffic().total().elements};
  world.all_reduce(sent);
  return sent[0];
}

/// What one rank has sent.
inline std::uint64_t sent_by_one(course::World& world) { return world.traffic().total().elements; }

/// The sum is counted, too.
inline std::uint64_t sent_with_the_sum(course::World& world)
{
  std::array<std::uint64_t, 2> sent{world.traffic().total().elements, 0};
  world.all_reduce(sent);
  sent[1] = world.traffic().total().elements;
  world.all_reduce(sent);
  return sent_by_all(world) / 4 + sent[0];
}

/// With each dimension padded to a multiple of `quantum`.
inline std::uint64_t padded_formula(cubist::ProductSize size, int r, int c, std::size_t quantum)
{
  const std::uint64_t m = cubist::pad(size.m, quantum);
  const std::uint64_t n = cubist::pad(size.n, quantum);
  const std::uint64_t k = cubist::pad(size.k, quantum);
  return static_cast<std::uint64_t>(c - 1) * m * k + static_cast<std::uint64_t>(r - 1) * k * n;
}

inline std::uint64_t formula(cubist::ProductSize size, int r, int c)
{
  return padded_formula(size, r, c, static_cast<std::size_t>(std::lcm(r, c)));
}
inline std::uint64_t formula_without_padding(cubist::ProductSize size, int r, int c)
{
  return padded_formula(size, r, c, 1);
}
inline std::uint64_t formula_swapped(cubist::ProductSize size, int r, int c)
{
  return formula(size, c, r);
}

}  // namespace answers
