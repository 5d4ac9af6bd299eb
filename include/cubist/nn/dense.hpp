// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The dense layer: Y = dropout(f(Z)), Z = X W + b.
//
//   X (M, K) S::Input    Z, Y (M, N) S::Output
//
// It keeps Z for backward, and dZ = mask(dY) f'(Z). Without activation and dropout, Y is Z.
//
// Words: those of Linear.

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "cubist/core/scalar.hpp"
#include "cubist/nn/activation.hpp"
#include "cubist/nn/dropout.hpp"
#include "cubist/nn/layer.hpp"
#include "cubist/nn/linear.hpp"
#include "cubist/nn/parameter.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist::CUBIST_ABI
{

template <SchemeType S, class B, RealScalar T>
class Dense
{
 public:
  using Value = T;
  /// The layer without activation.
  using Linear = cubist::Linear<S, B, T>;
  using Mesh = typename Linear::Mesh;
  using Input = typename Linear::Input;
  using Output = typename Linear::Output;

  /// @throws ShapeError for a layer without inputs or outputs, ArgumentError for options out of
  /// range
  Dense(const Mesh& mesh, std::size_t in, std::size_t out, const LinearOptions& options = {},
        const Activation& activation = identity, const Dropout& dropout = Dropout{0})
      : linear_{mesh, in, out, options}, activation_{activation}, dropout_{dropout}
  {
  }

  /// Y, which the layer owns, and overwrites in the next `forward`.
  const Output& forward(const Input& x, const Pass& pass)
  {
    forward(x, fit_output(y_, x), pass);
    return *y_;
  }
  /// The same, in a matrix of the caller's that is like make_output(x).
  void forward(const Input& x, Output& y, const Pass& pass)
  {
    if (is_linear()) return linear_.forward(x, y);
    linear_.forward(x, activation_, fit_output(z_, x), y);
    if (pass.training_step) dropout_.apply(y, *pass.training_step);
  }
  /// The number of output features.
  [[nodiscard]] std::size_t out() const { return linear_.out(); }
  [[nodiscard]] Output make_output(const Input& x) const { return linear_.make_output(x); }

  /// dX, which the layer owns, or null where it is not wanted. The gradients of weight and bias are
  /// complete after `finish_backward`.
  /// @pre X and the pass are those of the last `forward`
  const Input* backward(const Input& x, const Output& dy, const Pass& pass, bool wants_dx)
  {
    Input* const dx = wants_dx ? &detail::fit_like(dx_, x) : nullptr;
    backward(x, dy, pass, dx);
    return dx;
  }
  /// The same, in a matrix of the caller's, or null.
  void backward(const Input& x, const Output& dy, const Pass& pass, Input* dx)
  {
    if (is_linear()) return linear_.start_backward(x, dy, dx);
    Output& dz = fit_output(dz_, x);
    const bool masked = pass.training_step && dropout_.probability() > 0;
    if (masked) dropout_.apply(dy, dz, *pass.training_step);
    linear_.start_backward(x, activation_, std::as_const(*z_), masked ? dz : dy, dz, dx);
  }
  void finish_backward() { linear_.finish_backward(); }

  void append_parameters(Parameters<T, Mesh>& list, const std::string& prefix)
  {
    linear_.append_parameters(list, prefix);
  }

  void swap_activations(Dense& other)
  {
    linear_.swap_workspace(other.linear_);
    std::swap(y_, other.y_), std::swap(z_, other.z_);
    std::swap(dz_, other.dz_), std::swap(dx_, other.dx_);
  }

 private:
  /// Whether Y is Z.
  [[nodiscard]] bool is_linear() const
  {
    return std::holds_alternative<Identity>(activation_) && dropout_.probability() == 0;
  }

  Output& fit_output(std::optional<Output>& kept, const Input& x) const
  {
    return detail::fit(kept, x.mesh(), {x.rows(), linear_.out()},
                       {x.quanta().rows, linear_.out_quantum()});
  }

  Linear linear_;
  Activation activation_;
  Dropout dropout_;
  std::optional<Output> y_;
  std::optional<Output> z_;
  std::optional<Output> dz_;
  std::optional<Input> dx_;
};

}  // namespace cubist::CUBIST_ABI
