// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The dense layer: Y = dropout(f(Z)), Z = X W + b.
//
//   X (M, K) S::Input    Z, Y (M, N) S::Output
//
// Backward replaces dY by dZ = f'(Z) mask(dY). Without activation and dropout, Y is Z. Where
// products are local, the engine may add b and apply f as it writes Z (engine/epilogue.hpp).
//
// Each rank sends what Linear sends.

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "cubist/core/scalar.hpp"
#include "cubist/gradients/parameter.hpp"
#include "cubist/nn/dense/activation.hpp"
#include "cubist/nn/dense/activation_passes.hpp"
#include "cubist/nn/dense/linear.hpp"
#include "cubist/nn/dropout.hpp"
#include "cubist/nn/layer.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist::CUBIST_ABI
{

template <SchemeType S, class B, RealScalar T>
class Dense
{
 public:
  using Value = T;
  /// The linear layer.
  using Linear = cubist::Linear<S, B, T>;
  using Mesh = typename Linear::Mesh;
  using Input = typename Linear::Input;
  using Output = typename Linear::Output;

  /// @throws ShapeError for a layer without inputs or outputs, ArgumentError for options out of
  /// range, and on a GPU for the program's own activation
  Dense(const Mesh& mesh, std::size_t in, std::size_t out, const LinearOptions& options = {},
        const Activation& activation = identity, const Dropout& dropout = Dropout{0})
      : Dense{Linear{mesh, in, out, options}, activation, dropout}
  {
  }
  /// Takes a linear layer that was made before, for example one that stores W in fewer bits.
  /// @throws ArgumentError on a GPU for the program's own activation
  explicit Dense(Linear linear, const Activation& activation = identity,
                 const Dropout& dropout = Dropout{0})
      : linear_{std::move(linear)},
        activation_{activation},
        dropout_{dropout}
  {
    detail::require_callable(linear_.mesh().engine(), activation_);
  }

  /// What `forward` leaves for `backward`. If Y is Z or replaces it, there is no separate Z.
  struct Kept
  {
    typename Linear::Kept linear;
    std::optional<Output> y;
    std::optional<Output> z;
    std::optional<Output> dz;
    std::optional<Input> dx;
  };

  /// Returns Y, which is in `kept`.
  const Output& forward(const Input& x, const Pass& pass, Kept& kept) const
  {
    forward(x, fit_output(kept.y, x), pass, kept);
    return *kept.y;
  }
  /// Writes Y into a matrix that the caller owns.
  void forward(const Input& x, Output& y, const Pass& pass, Kept& kept) const
  {
    if (is_linear()) return linear_.forward(x, y, kept.linear, pass);
    linear_.require_like_output(y, "Y", x.rows());
    Output& z = linear_.is_stored() ? y : fit_output(kept.z, x);  // only `backward` reads Z
    linear_.forward(x, z, activation_, y, kept.linear, pass);
    if (pass.training_step) dropout_.apply(y, *pass.training_step, pass.cut);
  }

  /// Returns dX, which is in `kept`, or null if it is not wanted.
  const Input* backward(const Input& x, const Output& dy, const BackwardPass<T, Mesh>& pass,
                        Kept& kept, bool wants_dx)
  {
    Input* const dx = wants_dx ? &fit_like(kept.dx, x) : nullptr;
    backward(x, dy, pass, kept, dx);
    return dx;
  }
  /// Writes dX into a matrix that the caller owns, unless it is null.
  void backward(const Input& x, const Output& dy, const BackwardPass<T, Mesh>& pass, Kept& kept,
                Input* dx)
  {
    if (is_linear()) return linear_.backward(x, dy, pass.gradients, kept.linear, dx, pass);
    linear_.require_like_output(dy, "dY", x.rows());
    Output& dz = fit_output(kept.dz, x);
    const bool masked = pass.training_step && dropout_.probability() > 0;
    if (masked) dropout_.apply(dy, dz, *pass.training_step, pass.cut);
    const Output& after = masked ? dz : dy;
    detail::slopes_and_sums(x.mesh().engine(), activation_, std::as_const(*kept.z).valid(),
                            after.valid(), dz.valid(), linear_.column_sums().valid());
    linear_.backward_from_sums(x, dz, pass.gradients, kept.linear, dx, pass);
  }

  void append_parameters(Parameters<T, Mesh>& list, const std::string& prefix)
  {
    linear_.append_parameters(list, prefix);
  }

 private:
  /// Whether Y is Z.
  [[nodiscard]] bool is_linear() const
  {
    return std::holds_alternative<Identity>(activation_) && dropout_.probability() == 0;
  }

  Output& fit_output(std::optional<Output>& kept, const Input& x) const
  {
    return fit(kept, x.mesh(), {x.rows(), linear_.out()}, {x.quanta().rows, linear_.out_quantum()});
  }

  Linear linear_;
  Activation activation_;
  Dropout dropout_;
};

}  // namespace cubist::CUBIST_ABI
