// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A random order of the numbers 0 to count - 1. It is a function of the position, so it needs no
// memory, and every rank computes the same order.
//
// A Feistel network permutes a x b pairs, with a = ceil(sqrt(count)) and b = ceil(count / a). Each
// round adds a function of one half to the other half, which can be undone. The functions are
// Philox. A result that is not below count is permuted again until it is; this is rare, because
// a b < count + a.
//
// Source: Black, Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002, sections 3 and 4.

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "cubist/core/block.hpp"
#include "cubist/core/philox.hpp"
#include "cubist/core/random_stream.hpp"

namespace cubist::CUBIST_ABI
{

/// A random permutation of [0, count).
class Shuffle
{
 public:
  /// @pre count < 2^63
  /// @throws ArgumentError unless epoch < 2^40
  Shuffle(std::uint64_t count, std::uint64_t seed, std::uint64_t epoch = 0, Draw draw = Draw::order)
      : count_{count},
        a_{std::max(root(count), std::uint64_t{1})},
        b_{ceil_div(count, a_)},
        random_{stream(seed, draw, 0, epoch)}
  {
  }

  /// The number of items that are shuffled.
  [[nodiscard]] std::uint64_t count() const { return count_; }

  /// The number at position `i`.
  /// @pre i < count()
  [[nodiscard]] std::uint64_t operator()(std::uint64_t i) const
  {
    do i = permute(i);
    while (i >= count_);
    return i;
  }

 private:
  static std::uint64_t root(std::uint64_t n)
  {
    return static_cast<std::uint64_t>(std::ceil(std::sqrt(static_cast<double>(n))));
  }

  /// Permutes [0, a b).
  [[nodiscard]] std::uint64_t permute(std::uint64_t i) const
  {
    // With fewer rounds, some orders of 5 or 6 numbers are likelier than others.
    constexpr std::uint64_t rounds = 16;
    std::uint64_t x = i % a_;
    std::uint64_t y = i / a_;
    for (std::uint64_t round = 0; round < rounds; round += 2)
    {
      x = add(x, random_.bits(rounds * y + round), a_);
      y = add(y, random_.bits(rounds * x + round + 1), b_);
    }
    return x + a_ * y;
  }

  /// Returns (x + bits) modulo m.
  /// @pre x < m
  static std::uint64_t add(std::uint64_t x, std::uint64_t bits, std::uint64_t m)
  {
    const std::uint64_t sum = x + bits % m;
    return sum < m ? sum : sum - m;
  }

  std::uint64_t count_;
  std::uint64_t a_;
  std::uint64_t b_;
  Philox random_;
};

}  // namespace cubist::CUBIST_ABI
