// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Which random numbers a network draws: each weight, and each dropout mask of each step, has a
// stream of its own, indexed by the global position of the element.

#include <cstddef>
#include <cstdint>

#include "cubist/core/philox.hpp"

namespace cubist
{

enum class Draw : std::uint8_t
{
  weight,
  bias,
  dropout
};

/// The stream of what layer `layer` draws in step `step`.
/// @pre layer < 2^16, step < 2^40
[[nodiscard]] constexpr Philox stream(std::uint64_t seed, Draw draw, std::size_t layer,
                                      std::uint64_t step = 0)
{
  return {seed,
          static_cast<std::uint64_t>(draw) << 56 | static_cast<std::uint64_t>(layer) << 40 | step};
}

}  // namespace cubist
