// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A layer beside its input: Y = X + dropout(layer(X)).
//
//   X, Y: the layer's Input, which is its Output
//
//   dX = dY + dX of the layer, whose dY is mask(dY)
//
// Words: those of the layer.
// Source: He et al., "Deep Residual Learning for Image Recognition", arXiv 1512.03385.

#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "cubist/core/error.hpp"
#include "cubist/dist/state.hpp"
#include "cubist/engine/functions.hpp"
#include "cubist/nn/dropout.hpp"
#include "cubist/nn/layer.hpp"
#include "cubist/nn/parameter.hpp"

namespace cubist::CUBIST_ABI
{

template <LayerType L>
class Residual
{
  static_assert(std::is_same_v<typename L::Input, typename L::Output>,
                "this layer's output has another layout than its input, so they cannot be added; "
                "put a layer behind it that leads back to the input's layout, in a Sequential");

 public:
  using Value = typename L::Value;
  using Mesh = typename L::Mesh;
  using Input = typename L::Input;
  using Output = Input;

  /// Y = X + dropout(layer(X)).
  explicit Residual(L layer, const Dropout& dropout = Dropout{0})
      : layer_{std::move(layer)}, dropout_{dropout}
  {
  }

  /// The layer inside.
  [[nodiscard]] L& layer() { return layer_; }
  /// Y of the last `forward`.
  /// @pre there was one
  [[nodiscard]] const Output& output() const { return *y_; }

  /// Y, which the layer owns, and overwrites in the next `forward`.
  /// @throws ShapeError unless the layer has as many outputs as inputs
  const Output& forward(const Input& x, const Pass& pass)
  {
    const Output& f = layer_.forward(x, pass);
    require<ShapeError>(f.shape() == x.shape(), "got a layer from ", x.shape(), " to ", f.shape(),
                        " beside its input, so their elements do not correspond; give the layer as "
                        "many outputs as inputs");
    Output& y = detail::fit_like(y_, x);
    if (drops(pass))
      dropout_.add(x, f, y, *pass.training_step);
    else
      x.mesh().engine().map(y.valid(), detail::Sum{}, x.valid(), f.valid());
    return y;
  }

  /// dX = dY + dX of the layer, for mask(dY); or null where it is not wanted.
  /// @pre X and the pass are those of the last `forward`
  const Input* backward(const Input& x, const Output& dy, const Pass& pass, bool wants_dx)
  {
    const Output* df = &dy;
    if (drops(pass))
    {
      dropout_.apply(dy, detail::fit_like(df_, dy), *pass.training_step);
      df = &*df_;
    }
    const Input* of_layer = layer_.backward(x, *df, pass, wants_dx);
    if (!wants_dx) return nullptr;
    Input& dx = detail::fit_like(dx_, x);
    x.mesh().engine().map(dx.valid(), detail::Sum{}, dy.valid(), of_layer->valid());
    return &dx;
  }
  void finish_backward() { layer_.finish_backward(); }

  void append_parameters(Parameters<Value, Mesh>& list, const std::string& prefix)
  {
    layer_.append_parameters(list, prefix);
  }
  void append_state(State<Value, Mesh>& state, const std::string& prefix = "")
  {
    detail::append_state_of(layer_, state, prefix);
  }

  void swap_activations(Residual& other)
  {
    detail::swap_activations_of(layer_, other.layer_);
    std::swap(y_, other.y_), std::swap(df_, other.df_), std::swap(dx_, other.dx_);
  }

 private:
  [[nodiscard]] bool drops(const Pass& pass) const
  {
    return pass.training_step && dropout_.probability() > 0;
  }

  L layer_;
  Dropout dropout_;
  std::optional<Output> y_;
  std::optional<Output> df_;
  std::optional<Input> dx_;
};

}  // namespace cubist::CUBIST_ABI
