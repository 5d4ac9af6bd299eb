// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Learning rates that change from step to step: a linear warm-up, then a decay.
//
//   LearningRate rate{{.rate = 3e-4, .warm_up = 100, .steps = 1000, .decay = Decay::cosine}};
//   auto state = state_of(mlp, optimizer, rate);
//   ...
//   rate.set_next(optimizer);
//   optimizer.step(parameters);
//
// The learning rate of a group of parameters is multiplied by the same factor, at(s) / rate. So
// after the warm-up, groups have their own rates, whatever rate the optimizer was made with.
//
// The rate of step s, counted from 0, with w steps of warm-up out of n steps:
//   s < w       rate (s + 1) / w
//   s >= w      rate                                                     constant
//               rate + (last - rate) p, p = min(1, (s - w) / (n - w))    linear
//               rate + (last - rate) (1 - cos(pi p)) / 2                 cosine
//
// Source: Loshchilov, Hutter, SGDR: stochastic gradient descent with warm restarts (2017), equation
// 5, without restarts.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <string>

#include "cubist/core/error.hpp"
#include "cubist/core/finite.hpp"
#include "cubist/matrix/state.hpp"

namespace cubist::CUBIST_ABI
{

/// How the rate falls after the warm-up.
enum class Decay
{
  constant,  ///< it stays the same
  linear,    ///< along a line
  cosine     ///< along half a period of the cosine
};

/// The rate as a function of the step.
struct LearningRateOptions
{
  /// The rate after the warm-up, which replaces the optimizer's.
  double rate = 1e-3;
  /// The number of steps of the warm-up, in which the rate grows to `rate`.
  std::uint64_t warm_up = 0;
  /// The total number of steps, including the warm-up; Decay::constant does not need it.
  std::uint64_t steps = 0;
  Decay decay = Decay::constant;  ///< how the rate falls after the warm-up
  /// The rate after `steps` steps.
  double last = 0;

  /// @throws ArgumentError for a rate below 0, or if no step is left after the warm-up
  void check() const
  {
    require<ArgumentError>(is_finite(rate) && is_finite(last) && rate >= 0 && last >= 0,
                           "got learning rates of ", rate, " and ", last,
                           ", so weights would move away from a minimum or become NaN; use "
                           "finite ones of at least 0");
    require<ArgumentError>(decay == Decay::constant || steps > warm_up, "got ", steps,
                           " steps with a warm-up of ", warm_up,
                           ", so none is left in which the rate decays; give more steps");
  }
};

/// A learning rate that counts its steps.
class LearningRate
{
 public:
  /// @throws ArgumentError for options out of range
  explicit LearningRate(const LearningRateOptions& options)
      : options_{options}
  {
    options_.check();
  }

  /// Returns the rate of a step, counted from 0.
  [[nodiscard]] double at(std::uint64_t step) const
  {
    const auto& o = options_;
    if (step < o.warm_up)
      return o.rate * static_cast<double>(step + 1) / static_cast<double>(o.warm_up);
    if (o.decay == Decay::constant) return o.rate;
    const double passed = std::min(1.0, static_cast<double>(step - o.warm_up) /
                                            static_cast<double>(o.steps - o.warm_up));
    if (passed == 1) return o.last;
    const double share =
        o.decay == Decay::linear ? passed : (1 - std::cos(std::numbers::pi * passed)) / 2;
    return o.rate + (o.last - o.rate) * share;
  }

  /// Returns the rate of the next step, and counts the step.
  double next() { return at(step_++); }

  /// Sets the rates of the optimizer and its groups for the next step, and counts the step.
  template <class O>
  void set_next(O& optimizer)
  {
    optimizer.set_learning_rate(next(), base());
  }

  /// The rate after the warm-up.
  [[nodiscard]] double base() const { return options_.rate; }
  /// The number of steps counted so far.
  [[nodiscard]] std::uint64_t step() const { return step_; }

  /// Appends the number of steps, `learning_rate.step`, but not the options.
  template <class T, class M>
  void append_state(State<T, M>& state, const std::string& prefix = "")
  {
    state.numbers.push_back({prefix + "learning_rate.step", &step_});
  }

 private:
  LearningRateOptions options_;
  std::uint64_t step_ = 0;
};

}  // namespace cubist::CUBIST_ABI
