// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The frequencies of the rotary position embedding (rotary.hpp), and how models that were trained
// on short sequences stretch them for longer ones.
//
//   w_j = base^(-2j/n) for pair j of n/2, before scaling
//   linear   w_j / factor
//   llama3   with the wavelength l_j = 2 pi / w_j and the positions P of the original training:
//            w_j for l_j < P / high, w_j / factor for l_j > P / low, and between them
//            ((1 - s) / factor + s) w_j with s = (P / l_j - low) / (high - low)
//
// Source: Chen et al., "Extending Context Window of Large Language Models via Positional
// Interpolation", arXiv 2306.15595; "The Llama 3 Herd of Models", arXiv 2407.21783, and its
// reference code.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>

#include "cubist/core/error.hpp"
#include "cubist/core/host_device.hpp"

namespace cubist::CUBIST_ABI
{

/// How the frequencies of rotary angles are scaled. The comment on each number names the types that
/// use it.
struct RotaryScaling
{
  /// The formula.
  enum class Type : std::uint8_t
  {
    none,    ///< frequencies do not change
    linear,  ///< all are divided by `factor`
    llama3   ///< low ones are divided by `factor`, high ones stay
  };

  Type type = Type::none;     ///< the formula
  double factor = 1;          ///< linear and llama3: the factor
  double low_frequency = 1;   ///< llama3: waves longer than positions / low_frequency are low
  double high_frequency = 4;  ///< llama3: waves shorter than positions / high_frequency are high
  double positions = 8192;    ///< llama3: the longest sequence of the original training

  friend bool operator==(const RotaryScaling&, const RotaryScaling&) = default;

  /// @throws ArgumentError for numbers that are not positive, and for bands that are not in order
  void check() const
  {
    require<ArgumentError>(
        factor > 0 && low_frequency > 0 && positions > 0, "got rotary angles scaled by ", factor,
        ", with a low_freq_factor of ", low_frequency, " and ", positions,
        " original positions, so angles would not be numbers; use positive numbers");
    require<ArgumentError>(type != Type::llama3 || high_frequency > low_frequency,
                           "got low rotary frequencies up to ", low_frequency,
                           " and high ones from ", high_frequency,
                           " waves, so there is no band to interpolate between them; use a "
                           "high_freq_factor above low_freq_factor");
  }
};

namespace detail
{

/// The frequency of pair j among the `size` rotated elements of a head.
struct RotaryFrequency
{
  double base;
  std::size_t size;
  RotaryScaling scaling;

  CUBIST_HOST_DEVICE double operator()(std::size_t j) const
  {
    const double exponent = -2.0 * static_cast<double>(j) / static_cast<double>(size);
    const double frequency = std::pow(base, exponent);
    if (scaling.type == RotaryScaling::Type::none) return frequency;
    const double low = frequency / scaling.factor;
    if (scaling.type == RotaryScaling::Type::linear) return low;
    const double wavelength = 2 * std::numbers::pi / frequency;
    if (wavelength < scaling.positions / scaling.high_frequency) return frequency;
    if (wavelength > scaling.positions / scaling.low_frequency) return low;
    const double share = (scaling.positions / wavelength - scaling.low_frequency) /
                         (scaling.high_frequency - scaling.low_frequency);
    return (1 - share) * low + share * frequency;
  }
  friend bool operator==(const RotaryFrequency&, const RotaryFrequency&) = default;
};

}  // namespace detail

}  // namespace cubist::CUBIST_ABI
