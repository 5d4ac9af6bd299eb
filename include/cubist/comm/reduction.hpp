// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The arithmetic of a reduction, which combines several inputs element by element in a fixed order.
//
// A floating-point sum depends on the order, so communicators add in the same order, except where
// `sums_in_order` is false. For P ranks it is:
//
//   all_reduce, reduce_scatter   x[0] + x[1] + … + x[P-1], whichever rank adds an element
//   reduce to rank r             x[r+1] + x[r+2] + … + x[r], indices modulo P
//
// So the bits of a sum do not depend on where its element lies in a message. An all_reduce, a
// reduce_scatter, and a message that is packed from several give bit-identical sums. A pipelined
// chain of ranks that ends at r can add in the second order while it forwards partial sums. 16-bit
// sums are rounded after each addition. A minimum or maximum is a NaN if any input is one.

#include <algorithm>
#include <array>
#include <cstddef>

#include "cubist/comm/call.hpp"
#include "cubist/core/finite.hpp"
#include "cubist/core/scalar.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Combines elements [0, count) of in(0), in(1), …, in(inputs - 1), in this order; `out` may be one
/// of them.
/// @pre inputs > 0
template <Element T, class In>
void combine(ReduceOp op, std::size_t inputs, In in, std::size_t count, T* out)
{
  // `out` may be an input, so the sums of a block are kept here until all inputs have been read.
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
      if (op == ReduceOp::min) fold([](T a, T b) { return smaller(a, b); });
      if (op == ReduceOp::max) fold([](T a, T b) { return larger(a, b); });
    }
    std::copy_n(sums.begin(), n, out + begin);
  }
}

/// The rank whose elements come first in a reduction; the others follow cyclically.
[[nodiscard]] constexpr std::size_t first_summand(CallKind kind, int root, std::size_t ranks)
{
  return kind == CallKind::reduce ? (static_cast<std::size_t>(root) + 1) % ranks : 0;
}

/// One rank's share of the elements of a reduction.
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

}  // namespace cubist::CUBIST_ABI::detail
