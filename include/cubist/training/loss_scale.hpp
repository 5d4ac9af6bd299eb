// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A loss scale for networks in `half`, whose range is too narrow for small gradients:
//
//   LossScale scale;
//   ...
//   softmax_cross_entropy(y, labels, dy);
//   scale_gradient(dy, scale.value());                       // dY *= scale
//   mlp.backward(dy);
//   if (const auto factor = scale.update(gradient_norm(parameters)))
//     optimizer.step(parameters, *factor);                   // 1 / scale
//
// A step whose gradients overflow is skipped, and the scale shrinks; after some steps without an
// overflow it grows. If the options are powers of two, so are the scales, and scaling changes only
// a number's exponent, except at the ends of the range.
//
// Source: Micikevicius et al., Mixed precision training (2018), section 3.2; the defaults are those
// of PyTorch's GradScaler.

#include <bit>
#include <cstdint>
#include <optional>
#include <string>

#include "cubist/core/error.hpp"
#include "cubist/core/finite.hpp"
#include "cubist/matrix/state.hpp"

namespace cubist::CUBIST_ABI
{

/// The first scale, and how it changes.
struct LossScaleOptions
{
  double initial = 65536;  ///< the first scale
  double growth = 2;       ///< the factor after steps without overflow
  double backoff = 0.5;    ///< the factor after an overflow
  /// The number of steps without an overflow after which the scale grows.
  std::uint64_t growth_interval = 2000;

  /// @throws ArgumentError for values with which no scale would be found
  void check() const
  {
    require<ArgumentError>(is_finite(initial) && initial > 0 && is_finite(growth) && growth >= 1 &&
                               backoff > 0 && backoff < 1 && growth_interval > 0,
                           "got a loss scale of ", initial, " that grows by ", growth,
                           " and backs off by ", backoff, " after ", growth_interval,
                           " steps, so it would find no scale; use a positive one, a growth of "
                           "at least 1, a backoff in (0, 1) and at least one step");
  }
};

class LossScale
{
 public:
  /// @throws ArgumentError for options out of range
  explicit LossScale(const LossScaleOptions& options = {})
      : options_{options},
        bits_{std::bit_cast<std::uint64_t>(options.initial)}
  {
    options_.check();
  }

  /// The scale of this step's loss.
  [[nodiscard]] double value() const { return std::bit_cast<double>(bits_); }

  /// Adapts the scale to gradients of this norm. Returns the factor by which the optimizer
  /// multiplies them, or nothing if the step must be skipped. Every rank calls it with the same
  /// norm.
  [[nodiscard]] std::optional<double> update(double norm)
  {
    const double factor = 1 / value();
    if (!is_finite(norm))
    {
      ++skipped_;
      good_steps_ = 0;
      set(value() * options_.backoff);
      return {};
    }
    if (++good_steps_ == options_.growth_interval)
    {
      good_steps_ = 0;
      set(value() * options_.growth);
    }
    return factor;
  }

  /// The number of skipped steps.
  [[nodiscard]] std::uint64_t skipped() const { return skipped_; }

  /// Appends the bits of the scale, the steps since it changed, and the number of skipped steps,
  /// but not the options.
  template <class T, class M>
  void append_state(State<T, M>& state, const std::string& prefix = "")
  {
    state.numbers.push_back({prefix + "loss_scale.bits", &bits_});
    state.numbers.push_back({prefix + "loss_scale.good_steps", &good_steps_});
    state.numbers.push_back({prefix + "loss_scale.skipped", &skipped_});
  }

 private:
  /// Sets the scale, or keeps it if the new one or its reciprocal would not be normal in float.
  void set(double value)
  {
    if (value >= 0x1p-100 && value <= 0x1p100) bits_ = std::bit_cast<std::uint64_t>(value);
  }

  LossScaleOptions options_;
  std::uint64_t bits_;
  std::uint64_t good_steps_ = 0;
  std::uint64_t skipped_ = 0;
};

}  // namespace cubist::CUBIST_ABI
