// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The random streams of a network and its data: one for each weight, and for each dropout mask of
// each step, indexed by the global position of the element. So random numbers are bit-identical on
// every scheme, mesh and backend.

#include <cstddef>
#include <cstdint>

#include "cubist/core/error.hpp"
#include "cubist/core/philox.hpp"

namespace cubist::CUBIST_ABI
{

/// What random numbers are for. Each purpose has its own streams.
enum class Draw : std::uint8_t
{
  weight,  ///< initial weights
  bias,
  dropout,       ///< masks of dropout
  attention,     ///< masks of attention's dropout
  token,         ///< tokens that are generated
  order,         // the order of a dataset's rows or windows, with one stream for each epoch
  held_out,      // which rows of a dataset are held out
  lora,          ///< initial values of LoRA's A
  lora_dropout,  ///< masks of LoRA's dropout
};

namespace detail
{
/// Returns the number of a stream.
/// @throws ArgumentError unless layer < 2^16 and step < 2^40
[[nodiscard]] inline std::uint64_t stream_number(Draw draw, std::size_t layer, std::uint64_t step)
{
  require<ArgumentError>(
      layer < std::size_t{1} << 16 && step < std::uint64_t{1} << 40, "got layer ", layer,
      " and step ", step,
      ", which would have the random numbers of another layer and step; use layers below 2^16 and "
      "steps below 2^40");
  return static_cast<std::uint64_t>(draw) << 56 | static_cast<std::uint64_t>(layer) << 40 | step;
}
}  // namespace detail

/// Returns the stream from which layer `layer` draws in step `step`.
/// @throws ArgumentError unless layer < 2^16 and step < 2^40
[[nodiscard]] inline Philox stream(std::uint64_t seed, Draw draw, std::size_t layer,
                                   std::uint64_t step = 0)
{
  return {seed, detail::stream_number(draw, layer, step)};
}

}  // namespace cubist::CUBIST_ABI
