// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Computes what a weight becomes when it is stored in fewer bits, by the definitions of
// core/stored_weights.hpp.

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "cubist/core/float16.hpp"
#include "cubist/core/stored_weights.hpp"

namespace cubist::test
{

/// Rounds weights (in, out) as a model in float stores them, and returns them in double.
/// @tparam G  a matrix of doubles: shape(0), shape(1), (i, j)
template <class G>
[[nodiscard]] G as_stored(G w, StoredWeights type)
{
  const std::size_t in = w.shape(0), out = w.shape(1);
  if (type == StoredWeights::bfloat16)
    for (auto& x : w) x = static_cast<float>(bfloat16{static_cast<float>(x)});
  if (type == StoredWeights::half)
    for (auto& x : w) x = static_cast<float>(half{static_cast<float>(x)});
  if (type != StoredWeights::q8) return w;
  for (std::size_t j = 0; j < out; ++j)
    for (std::size_t i = 0; i < in; i += 32)
    {
      const std::size_t end = std::min(i + 32, in);
      float largest = 0;
      for (std::size_t l = i; l < end; ++l)
        largest = std::max(largest, std::abs(static_cast<float>(w(l, j))));
      // Divides in float, because near halves of integers the result depends on how the quotient is
      // rounded.
      const float scale = half{largest / 127};
      for (std::size_t l = i; l < end; ++l)
      {
        const float q = scale == 0 ? 0 : std::round(static_cast<float>(w(l, j)) / scale);
        w(l, j) = double{scale} * std::clamp(q, -127.0F, 127.0F);
      }
    }
  return w;
}

}  // namespace cubist::test
