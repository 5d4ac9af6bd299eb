// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The layers of a multi-layer perceptron, whose number is known at run time only: dense layers of a
// scheme and of its Next in turn, without their types.

#include <optional>
#include <string>
#include <utility>

#include "cubist/core/scalar.hpp"
#include "cubist/nn/activations.hpp"
#include "cubist/nn/dense.hpp"
#include "cubist/nn/layer.hpp"
#include "cubist/nn/parameter.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist::detail
{

/// A layer from activations of type A to such: the interface of nn/layer.hpp, without its types.
template <class A, class Parameters>
class AnyLayer
{
 public:
  virtual ~AnyLayer() = default;
  virtual const A& forward(const A& x, const Pass& pass) = 0;
  /// Returns dX, or null where it is not wanted.
  virtual const A* backward(const A& x, const A& dy, const Pass& pass, bool wants_dx) = 0;
  /// Waits until the gradients of `backward` are complete.
  virtual void finish_backward() = 0;
  virtual void append_parameters(Parameters& list, const std::string& prefix) = 0;
};

/// A dense layer of scheme S.
template <class A, SchemeType S, class B, RealScalar T>
class MlpLayer final : public AnyLayer<A, Parameters<T, typename A::Mesh>>
{
 public:
  using Mesh = typename A::Mesh;

  explicit MlpLayer(Dense<S, B, T> dense) : dense_{std::move(dense)} {}

  const A& forward(const A& x, const Pass& pass) override
  {
    const auto& in = x.template as<typename S::Input>();
    if (!y_ || y_->rows() != x.rows()) y_.emplace(dense_.make_output(in));
    dense_.forward(in, y_->template as<typename S::Output>(), pass);
    return *y_;
  }

  const A* backward(const A& x, const A& dy, const Pass& pass, bool wants_dx) override
  {
    const auto& in = x.template as<typename S::Input>();
    if (wants_dx && (!dx_ || dx_->rows() != x.rows()))
      dx_.emplace(typename Dense<S, B, T>::Input{in.mesh(), in.shape(), in.quanta()});
    dense_.backward(in, dy.template as<typename S::Output>(), pass,
                    wants_dx ? &dx_->template as<typename S::Input>() : nullptr);
    return wants_dx ? &*dx_ : nullptr;
  }

  void finish_backward() override { dense_.finish_backward(); }

  void append_parameters(Parameters<T, Mesh>& list, const std::string& prefix) override
  {
    dense_.append_parameters(list, prefix);
  }

 private:
  Dense<S, B, T> dense_;
  std::optional<A> y_;
  std::optional<A> dx_;
};

}  // namespace cubist::detail
