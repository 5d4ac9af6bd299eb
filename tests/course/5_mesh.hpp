// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Answers to exercise 5: one that is right, and some that are wrong.

#include <cstdint>
#include <limits>

#include "3_count.hpp"
#include "4_summa25d.hpp"
#include "course.hpp"

namespace answers
{

/// The mesh of at most `most_layers` layers that sends the least in `forwards` times forward and,
/// `gradients` times, the sum of the gradient.
inline course::Choice fastest_of(cubist::ProductSize size, int ranks, int most_layers,
                                 std::uint64_t forwards, std::uint64_t gradients)
{
  course::Choice best;
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  const auto consider = [&](const course::Choice& choice, const course::Sent25D& sent) {
    const std::uint64_t all = forwards * sent.forward + gradients * sent.gradient;
    if (all < least) least = all, best = choice;
  };
  for (int r = 1; r <= ranks; ++r)
    if (const int c = ranks / r; r * c == ranks)
      consider({r, c, 1}, {.forward = padded_formula(size, r, c, 1)});
  for (int q = 1; q * q <= ranks; ++q)
    if (const int d = ranks / (q * q); q * q * d == ranks && d <= most_layers)
      consider({q, q, d}, formula25d(size, q, d));
  return best;
}

inline course::Choice fastest(cubist::ProductSize size, int ranks)
{
  return fastest_of(size, ranks, ranks, 3, 1);
}

/// Without layers.
inline course::Choice fastest_2d(cubist::ProductSize size, int ranks)
{
  return fastest_of(size, ranks, 1, 3, 1);
}

/// As if no gradient were summed.
inline course::Choice fastest_forward(cubist::ProductSize size, int ranks)
{
  return fastest_of(size, ranks, ranks, 1, 0);
}

/// As square as it can be, whatever the shape.
inline course::Choice most_square(cubist::ProductSize, int ranks)
{
  int r = 1;
  for (int i = 1; i * i <= ranks; ++i)
    if (ranks % i == 0) r = i;
  return {.rows = r, .cols = ranks / r, .layers = 1};
}

/// 2 x 2 ranks, however many there are.
inline course::Choice too_few_ranks(cubist::ProductSize, int)
{
  return {.rows = 2, .cols = 2, .layers = 1};
}

}  // namespace answers
