// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// One layer of a multi-layer perceptron: Y = dropout(activation(Z)), Z = X W + b.
//
//   X (M, K) S::Input    Z, Y (M, N) S::Output
//
// It keeps Z for backward, and dZ = mask(dY) activation'(Z). Without activation and dropout, Y is
// Z.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "cubist/core/scalar.hpp"
#include "cubist/dist/dist_matrix.hpp"
#include "cubist/nn/activation.hpp"
#include "cubist/nn/activations.hpp"
#include "cubist/nn/dropout.hpp"
#include "cubist/nn/linear.hpp"
#include "cubist/nn/parameter.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist::detail
{

/// A layer of any scheme.
template <class A, class Parameters>
class AnyLayer
{
 public:
  virtual ~AnyLayer() = default;
  virtual const A& forward(const A& x, std::optional<std::uint64_t> training_step) = 0;
  /// Returns dX, or null where it is not wanted.
  virtual const A* backward(const A& x, const A& dy, std::optional<std::uint64_t> training_step,
                            bool wants_dx) = 0;
  /// Waits until the gradients of `backward` are complete.
  virtual void finish_backward() = 0;
  virtual void append_parameters(Parameters& list, const std::string& prefix) = 0;
};

/// Y = dropout(activation(Z)), Z = X W + b, of a network whose activations are of type A.
template <class A, SchemeType S, class B, RealScalar T>
class MlpLayer final : public AnyLayer<A, Parameters<T, typename A::Mesh>>
{
 public:
  using Mesh = typename A::Mesh;

  MlpLayer(const Mesh& mesh, std::size_t in, std::size_t out, const LinearOptions& options,
           const Activation& activation, const Dropout& dropout)
      : mesh_{mesh}, linear_{mesh, in, out, options}, activation_{activation}, dropout_{dropout}
  {
  }

  const A& forward(const A& x, std::optional<std::uint64_t> training_step) override
  {
    allocate(x.rows());
    const auto& in = x.template as<InputLayout>();
    auto& y = y_->template as<OutputLayout>();
    if (is_linear())
    {
      linear_.forward(in, y);
      return *y_;
    }
    linear_.forward(in, activation_, *z_, y);
    if (training_step) dropout_.apply(y, *training_step);
    return *y_;
  }

  const A* backward(const A& x, const A& dy, std::optional<std::uint64_t> training_step,
                    bool wants_dx) override
  {
    const auto& in = x.template as<InputLayout>();
    const auto& gradient = dy.template as<OutputLayout>();
    Input* const dx = wants_dx ? &input_gradient(x.rows()) : nullptr;
    const A* const result = wants_dx ? &*dx_ : nullptr;
    if (is_linear())
    {
      linear_.start_backward(in, gradient, dx);
      return result;
    }
    const bool masked = training_step && dropout_.probability() > 0;
    if (masked) dropout_.apply(gradient, *dz_, *training_step);
    linear_.start_backward(in, activation_, std::as_const(*z_), masked ? *dz_ : gradient, *dz_, dx);
    return result;
  }

  void finish_backward() override { linear_.finish_backward(); }

  void append_parameters(Parameters<T, Mesh>& list, const std::string& prefix) override
  {
    linear_.append_parameters(list, prefix);
  }

 private:
  using InputLayout = typename S::Input;
  using OutputLayout = typename S::Output;
  using Input = DistMatrix<T, InputLayout, Mesh>;
  using Output = DistMatrix<T, OutputLayout, Mesh>;

  /// Whether Y is Z.
  [[nodiscard]] bool is_linear() const
  {
    return std::holds_alternative<Identity>(activation_) && dropout_.probability() == 0;
  }

  void allocate(std::size_t m)
  {
    if (y_ && y_->rows() == m) return;
    y_.emplace(Output{mesh_, {m, linear_.out()}});
    if (is_linear()) return;
    z_.emplace(mesh_, Shape{m, linear_.out()});
    dz_.emplace(mesh_, Shape{m, linear_.out()});
  }

  [[nodiscard]] Input& input_gradient(std::size_t m)
  {
    if (!dx_ || dx_->rows() != m) dx_.emplace(Input{mesh_, {m, linear_.in()}});
    return dx_->template as<InputLayout>();
  }

  Mesh mesh_;
  Linear<S, B, T> linear_;
  Activation activation_;
  Dropout dropout_;
  std::optional<A> y_;
  std::optional<A> dx_;
  std::optional<Output> z_;
  std::optional<Output> dz_;
};

}  // namespace cubist::detail
