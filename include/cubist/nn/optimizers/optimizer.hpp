// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Optimizers. Each rank updates its own shards without communication: replicas have equal gradients
// and so stay equal. A step is one pass over each parameter, its gradient and its means. Weights of
// 16 bits have master copies in float (nn/optimizers/moments.hpp).
//
//   Sgd     v = momentum v + g;  w -= rate v
//   Adam    m, v: running means of g and g^2;  w -= rate m' / (sqrt(v') + epsilon)
//   AdamW   Adam, plus w -= rate decay w, which does not enter the means
//
// Groups of parameters may have their own rate and decay (parameter_groups.hpp). AdamW does not
// decay the biases and norms of a transformer, unless its options say so.
//
// Source: Kingma, Ba, "Adam", arXiv 1412.6980; Loshchilov, Hutter, "Decoupled Weight Decay
// Regularization", arXiv 1711.05101.

#include <array>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "cubist/core/error.hpp"
#include "cubist/core/finite.hpp"
#include "cubist/core/host_device.hpp"
#include "cubist/core/instances.hpp"
#include "cubist/core/rounded_product.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/core/vector_math.hpp"
#include "cubist/gradients/parameter.hpp"
#include "cubist/matrix/state.hpp"
#include "cubist/nn/optimizers/moments.hpp"
#include "cubist/nn/optimizers/parameter_groups.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

/// @throws ArgumentError unless 0 <= value < end
inline void check_option(const char* name, double value,
                         double end = std::numeric_limits<double>::infinity())
{
  require<ArgumentError>(value >= 0 && value < end && is_finite(value), "got ", name, " of ", value,
                         ", but no update is defined for it; use one in [0, ", end, ")");
}

/// PyTorch's option names, so that {.lr = 1e-3} gives a compile error that says what to write.
struct OptionsOfPyTorch
{
  double lr = 0;
  double momentum = 0;
  std::array<double, 2> betas = {};
  double eps = 0;
  double weight_decay = 0;
};

/// Fails to compile unless the optimizer takes these options.
template <class Given, class Options>
constexpr void require_options()
{
  static_assert(
      std::convertible_to<const Given&, Options>,
      "these are not options of the optimizer, so its learning rate is unknown; name them "
      "in braces, {.learning_rate = 1e-3}: cubist has learning_rate where PyTorch has lr, "
      "beta1 and beta2 for betas, and epsilon for eps");
}

/// @throws ArgumentError for a rate or a decay that is negative or not finite
/// @param of_muon  whether the groups are Muon's
inline void check_groups(const std::vector<ParameterGroup>& groups, bool of_muon = false)
{
  for (const ParameterGroup& group : groups)
  {
    require<ArgumentError>(of_muon || !group.muon,
                           "got a group with .muon for an optimizer that is not Muon, so it would "
                           "change nothing; leave it out, or make a Muon");
    if (group.learning_rate) check_option("a group's learning rate", *group.learning_rate);
    if (group.weight_decay) check_option("a group's weight decay", *group.weight_decay);
  }
}

/// The learning rates of an optimizer's groups. A group's rate is a base. A schedule multiplies it
/// by the same factor as the base of the optimizer's rate.
class GroupRates
{
 public:
  /// @param rate the optimizer's rate
  explicit GroupRates(double rate)
      : rate_{rate}
  {
  }

  /// Sets the optimizer's rate and its base.
  /// @throws ArgumentError for rates that are negative or not finite
  void set(double rate, double base)
  {
    check_option("a learning rate", rate);
    check_option("a base of learning rates", base);
    rate_ = rate;
    factor_ = rate / base;
  }

  /// Returns the rate of a group.
  /// @param group null for parameters in no group
  /// @param now the rate in the optimizer's options
  /// @throws ArgumentError for a group with a rate, if the factor for it is unknown
  [[nodiscard]] double of(const ParameterGroup* group, double now) const
  {
    if (group == nullptr || !group->learning_rate) return now;
    require<ArgumentError>(
        now == rate_, "got a learning rate of ", now, " in the options of an optimizer whose rate ",
        "was ", rate_,
        ", but one of its groups has its own rate, so the factor for the group's rate ",
        "is unknown; call set_learning_rate(rate, base), or set_next(optimizer) of a LearningRate");
    require<ArgumentError>(is_finite(factor_), "got a learning rate of ", rate_,
                           " whose base is too small, so the rates of groups would not be finite; "
                           "give the rate that theirs are relative to as its base");
    return *group->learning_rate * factor_;
  }

 private:
  double rate_;
  double factor_ = 1;
};

/// The base of all optimizers: their options, the weights that they update, and their rates.
/// @tparam O  the options
template <RealScalar T, class M, class O>
class OptimizerBase
{
 public:
  using Value = T;
  using Mesh = M;
  using Options = O;

  [[nodiscard]] Options& options() { return options_; }
  /// Sets the learning rate of the next steps. The rates of groups are relative to `base`: each is
  /// multiplied by rate / base.
  /// @throws ArgumentError for rates that are negative or not finite
  void set_learning_rate(double rate, double base)
  {
    rates_.set(rate, base);
    options_.learning_rate = rate;
  }

 protected:
  /// @param name  the prefix of the masters' names in a checkpoint
  /// @param separate  whether parameters that decay and those that do not are in different sets
  OptimizerBase(const Parameters<T, M>& parameters, const Options& options, const std::string& name,
                bool separate)
      : options_{options},
        rates_{options.learning_rate},
        weights_{parameters, name, sets_of(parameters, options.groups, separate)}
  {
    options_.check();
  }

  /// The group of a set; null for parameters in no group.
  /// @throws ArgumentError for options out of range
  [[nodiscard]] const ParameterGroup* group(std::size_t set) const
  {
    options_.check();
    return weights_.sets.group(set, options_.groups);
  }
  [[nodiscard]] double rate_of(const ParameterGroup* group) const
  {
    return rates_.of(group, options_.learning_rate);
  }

  Options options_;
  GroupRates rates_;
  Weights<T, M> weights_;
};

template <class T>
struct SgdUpdate
{
  T rate, momentum, factor;

  CUBIST_HOST_DEVICE void operator()(T& w, const T& gradient, T& v) const
  {
    const T velocity = rounded_product(momentum, v) + rounded_product(factor, gradient);
    v = velocity;
    w -= rounded_product(rate, velocity);
  }
};

/// `rate` and `correction` correct the bias of the means. The shares of a new gradient are 1 -
/// beta, rounded once: in float, 1 - 0.999F is less than 0.001F by 1.3e-5 of it.
template <class T>
struct AdamUpdate
{
  T beta1, beta2, share1, share2, rate, correction, keep, epsilon, factor;

  CUBIST_HOST_DEVICE void operator()(T& w, const T& gradient, T& m, T& v) const
  {
    const T g = factor * gradient;
    const T mean = rounded_product(beta1, m) + rounded_product(share1, g);
    const T square = rounded_product(beta2, v) + rounded_product(share2 * g, g);
    m = mean;
    v = square;
    const T root = square_root(rounded_product(square, correction));
    w = rounded_product(keep, w) - rate * mean / (root + epsilon);
  }
};

}  // namespace detail

/// Options of gradient descent.
struct SgdOptions
{
  double learning_rate = 0.1;
  double momentum = 0;  ///< the part of the last update that is repeated
  /// Parameters with their own learning rate; Sgd has no weight decay.
  std::vector<ParameterGroup> groups = {};

  /// @throws ArgumentError for a value out of its range
  void check() const
  {
    detail::check_option("a learning rate", learning_rate);
    detail::check_option("a momentum", momentum, 1);
    detail::check_groups(groups);
    for (const ParameterGroup& group : groups)
      require<ArgumentError>(!group.weight_decay, "got a group with a weight decay of ",
                             group.weight_decay.value_or(0),
                             ", which Sgd does not have, so it would be ignored; use AdamW, or "
                             "leave it out");
  }
};

/// Gradient descent with momentum. The constructor and `step` throw ArgumentError for options out
/// of range.
template <RealScalar T, class M>
class Sgd : public detail::OptimizerBase<T, M, SgdOptions>
{
 public:
  /// Makes an optimizer that updates the values of these parameters.
  explicit Sgd(const Parameters<T, M>& parameters, const SgdOptions& options = {})
      : Base{parameters, options, "sgd", false},
        velocity_{parameters, "sgd.velocity"}
  {
  }
  /// Does not compile, because these are not options of the optimizer.
  template <class Other = detail::OptionsOfPyTorch>
  requires(!std::convertible_to<const Other&, SgdOptions>)
      Sgd(const Parameters<T, M>& parameters, const Other&)
      : Sgd{parameters}
  {
    detail::require_options<Other, SgdOptions>();
  }

  /// Updates the parameters from their gradients, multiplied by `factor`, such as the factor of
  /// clipping or of a loss scale.
  /// @throws ShapeError unless the constructor got the same parameters
  void step(const Parameters<T, M>& parameters, double factor = 1)
  {
    using A = Accumulator<T>;
    using Update = detail::SgdUpdate<A>;
    const detail::MakeUpdate<Update> make_update = [this, factor](std::size_t set) {
      const double rate = this->rate_of(this->group(set));
      return Update{static_cast<A>(rate), static_cast<A>(this->options_.momentum),
                    static_cast<A>(factor)};
    };
    detail::update_weights(this->weights_, parameters, make_update, velocity_);
  }

  /// Appends the velocities, `sgd.velocity.layers.0.weight` and so on, and the masters of 16-bit
  /// weights, `sgd.master.layers.0.weight` and so on, but not the options.
  void append_state(State<T, M>& state, const std::string& prefix = "")
  {
    detail::append_moments_to_state(velocity_, state, prefix);
    this->weights_.append_state(state, prefix);
  }

 private:
  using Base = detail::OptimizerBase<T, M, SgdOptions>;

  detail::Moments<T, M> velocity_;
};

/// Options of Adam and AdamW.
struct AdamOptions
{
  double learning_rate = 1e-3;
  double beta1 = 0.9;    ///< the decay of the mean of gradients
  double beta2 = 0.999;  ///< the decay of the mean of their squares
  double epsilon = 1e-8;
  /// Only AdamW decays weights.
  double weight_decay = 0.01;
  /// Whether the biases and norms of a transformer decay, too. PyTorch's AdamW decays all that it
  /// is given, and most recipes put these in a group with a decay of 0. The optimizer reads this
  /// option when it is made.
  bool decay_biases_and_norms = false;
  /// Parameters with their own learning rate or weight decay.
  std::vector<ParameterGroup> groups = {};

  /// @throws ArgumentError for a value out of its range
  void check() const
  {
    detail::check_groups(groups);
    detail::check_option("a learning rate", learning_rate);
    detail::check_option("a beta1", beta1, 1);
    detail::check_option("a beta2", beta2, 1);
    detail::check_option("an epsilon", epsilon);
    detail::check_option("a weight decay", weight_decay);
  }
};

/// Adam. The constructor and `step` throw ArgumentError for options out of range.
template <RealScalar T, class M>
class Adam : public detail::OptimizerBase<T, M, AdamOptions>
{
 public:
  /// Makes an optimizer that updates the values of these parameters.
  explicit Adam(const Parameters<T, M>& parameters, const AdamOptions& options = {})
      : Adam{parameters, options, false}
  {
  }
  /// Does not compile, because these are not options of the optimizer.
  template <class Other = detail::OptionsOfPyTorch>
  requires(!std::convertible_to<const Other&, AdamOptions>)
      Adam(const Parameters<T, M>& parameters, const Other&)
      : Adam{parameters}
  {
    detail::require_options<Other, AdamOptions>();
  }

  /// Updates the parameters from their gradients, multiplied by `factor`, such as the factor of
  /// clipping or of a loss scale.
  /// @throws ShapeError unless the constructor got the same parameters
  void step(const Parameters<T, M>& parameters, double factor = 1)
  {
    using A = Accumulator<T>;
    using Update = detail::AdamUpdate<A>;
    const detail::MakeUpdate<Update> make_update = [this, factor](std::size_t set) {
      const auto& o = this->options_;
      const ParameterGroup* const group = this->group(set);
      if (set == 0) ++steps_;  // set 0 begins the step
      const auto n = static_cast<double>(steps_);
      const double rate = this->rate_of(group);
      double decay = this->weights_.sets.decays(set) ? o.weight_decay : 0;
      if (group != nullptr) decay = group->weight_decay.value_or(decay);
      if (!decays_) decay = 0;
      return Update{.beta1 = static_cast<A>(o.beta1),
                    .beta2 = static_cast<A>(o.beta2),
                    .share1 = static_cast<A>(1 - o.beta1),
                    .share2 = static_cast<A>(1 - o.beta2),
                    .rate = static_cast<A>(rate / (1 - std::pow(o.beta1, n))),
                    .correction = static_cast<A>(1 / (1 - std::pow(o.beta2, n))),
                    .keep = static_cast<A>(1 - rate * decay),
                    .epsilon = static_cast<A>(o.epsilon),
                    .factor = static_cast<A>(factor)};
    };
    detail::update_weights(this->weights_, parameters, make_update, mean_, square_);
  }

  /// Appends the means, `adam.mean.layers.0.weight` and so on, the masters of 16-bit weights,
  /// `adam.master.layers.0.weight` and so on, and the number of steps, but not the options.
  void append_state(State<T, M>& state, const std::string& prefix = "")
  {
    detail::append_moments_to_state(mean_, state, prefix);
    detail::append_moments_to_state(square_, state, prefix);
    this->weights_.append_state(state, prefix);
    state.numbers.push_back({prefix + "adam.steps", &steps_});
  }

 protected:
  /// @param decays  whether weights decay, in the update and not through the gradient
  Adam(const Parameters<T, M>& parameters, const AdamOptions& options, bool decays)
      : Base{parameters, options, "adam", decays && !options.decay_biases_and_norms},
        decays_{decays},
        mean_{parameters, "adam.mean"},
        square_{parameters, "adam.square"}
  {
  }

 private:
  using Base = detail::OptimizerBase<T, M, AdamOptions>;

  bool decays_;
  std::uint64_t steps_ = 0;
  detail::Moments<T, M> mean_;
  detail::Moments<T, M> square_;
};

/// Adam with weight decay in the update instead of the gradient.
template <RealScalar T, class M>
class AdamW : public Adam<T, M>
{
 public:
  /// Makes an optimizer that updates the values of these parameters.
  explicit AdamW(const Parameters<T, M>& parameters, const AdamOptions& options = {})
      : Adam<T, M>{parameters, options, true}
  {
  }
  /// Does not compile, because these are not options of the optimizer.
  template <class Other = detail::OptionsOfPyTorch>
  requires(!std::convertible_to<const Other&, AdamOptions>)
      AdamW(const Parameters<T, M>& parameters, const Other&)
      : AdamW{parameters}
  {
    detail::require_options<Other, AdamOptions>();
  }
};

/// Lists the instances in the compiled library (cubist/core/instances.hpp).
#define CUBIST_OPTIMIZER_INSTANCES(prefix, M, T)                                                   \
  CUBIST_INSTANCE(prefix,                                                                          \
                  detail::update_weights<T, M, detail::SgdUpdate<T>, detail::Moments<T, M>>)       \
  CUBIST_INSTANCE(prefix, detail::update_weights<T, M, detail::AdamUpdate<T>,                      \
                                                 detail::Moments<T, M>, detail::Moments<T, M>>)
CUBIST_FOR_TRAINED_MESHES(CUBIST_OPTIMIZER_INSTANCES)

}  // namespace cubist::CUBIST_ABI
