// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The arithmetic of a reduction: several inputs combined element by element, in their order.
//
// Floating-point sums depend on that order, so it is part of what a communicator promises, and the
// same for all of them: around the ring of ranks, from the rank behind the one that keeps the
// result to the one that keeps it. Rank r of P keeps x[r+1] + x[r+2] + … + x[r], indices modulo P.
// It is the order in which a pipelined chain or a ring can add as the data passes. Sums of 16 bits
// are rounded one by one, as they are when they pass.

#include <algorithm>
#include <array>
#include <cstddef>

#include "cubist/comm/call.hpp"
#include "cubist/core/scalar.hpp"

namespace cubist::detail
{

/// Combines elements [0, count) of in(0), in(1), …, in(inputs - 1), in this order; `out` may be one
/// of them.
/// @pre inputs > 0
template <Element T, class In>
void combine(ReduceOp op, std::size_t inputs, In in, std::size_t count, T* out)
{
  // `out` may be an input, so sums are kept aside until the last one has been read.
  std::array<T, 512> sums;
  for (std::size_t begin = 0; begin < count; begin += sums.size())
  {
    const std::size_t n = std::min(sums.size(), count - begin);
    std::copy_n(in(0) + begin, n, sums.begin());
    const auto fold = [&](auto f) {
      for (std::size_t i = 1; i < inputs; ++i)
      {
        const T* x = in(i) + begin;
        for (std::size_t j = 0; j < n; ++j) sums[j] = f(sums[j], x[j]);
      }
    };
    if (op == ReduceOp::sum) fold([](T a, T b) { return static_cast<T>(a + b); });
    if constexpr (!ComplexScalar<T>)
    {
      if (op == ReduceOp::min) fold([](T a, T b) { return b < a ? b : a; });
      if (op == ReduceOp::max) fold([](T a, T b) { return a < b ? b : a; });
    }
    std::copy_n(sums.begin(), n, out + begin);
  }
}

/// The i-th rank to be combined into the result that rank `keeper` of `ranks` keeps.
[[nodiscard]] constexpr int combined_rank(int i, int keeper, int ranks)
{
  return (keeper + 1 + i) % ranks;
}

/// A share of `count` elements, for a reduction that ranks divide among themselves.
struct Share
{
  std::size_t offset;
  std::size_t count;
};

[[nodiscard]] constexpr Share share_of(int rank, int ranks, std::size_t count)
{
  const auto r = static_cast<std::size_t>(rank);
  const auto p = static_cast<std::size_t>(ranks);
  return {count / p * r + std::min(count % p, r), count / p + (r < count % p ? 1 : 0)};
}

}  // namespace cubist::detail
