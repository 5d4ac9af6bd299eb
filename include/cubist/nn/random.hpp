// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The random streams of a network: one for each weight, and for each dropout mask of each step,
// indexed by the global position of the element.

#include <cstddef>
#include <cstdint>

#include "cubist/core/complex.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/host_device.hpp"
#include "cubist/core/philox.hpp"
#include "cubist/core/scalar.hpp"

namespace cubist
{

enum class Draw : std::uint8_t
{
  weight,
  bias,
  dropout
};

/// The stream from which layer `layer` draws in step `step`.
/// @throws ArgumentError unless layer < 2^16 and step < 2^40
[[nodiscard]] inline Philox stream(std::uint64_t seed, Draw draw, std::size_t layer,
                                   std::uint64_t step = 0)
{
  require<ArgumentError>(layer < std::size_t{1} << 16 && step < std::uint64_t{1} << 40,
                         "got layer ", layer, " and step ", step,
                         ", whose random numbers would be those of other ones; use layers below "
                         "2^16 and steps below 2^40");
  return {seed,
          static_cast<std::uint64_t>(draw) << 56 | static_cast<std::uint64_t>(layer) << 40 | step};
}

namespace detail
{

/// Uniform in ±bound, drawn by the element's index in its global matrix of `cols` columns.
template <Scalar T>
struct InitialValue
{
  Philox random;
  Real<T> bound;
  std::size_t cols;

  CUBIST_HOST_DEVICE auto operator()(std::size_t i, std::size_t j) const
  {
    const T value = random.template symmetric<T>(i * cols + j, bound);
    if constexpr (ComplexScalar<T>)
      return Complex{value};
    else
      return value;
  }
};

}  // namespace detail

}  // namespace cubist
