// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A residual connection around a layer: Y = X + dropout(layer(X)).
//
//   X, Y: the layer's Input, which is its Output
//
//   dX = dY + dX of the layer, whose dY is mask(dY)
//
// Where replicas of X share memory, each adds a part of the rows (nn/replica_split.hpp).
//
// Elements that one rank sends: what the layer sends.
// Source: He et al., "Deep Residual Learning for Image Recognition", arXiv 1512.03385.

#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "cubist/core/error.hpp"
#include "cubist/engine/functions.hpp"
#include "cubist/gradients/parameter.hpp"
#include "cubist/matrix/state.hpp"
#include "cubist/nn/dropout.hpp"
#include "cubist/nn/layer.hpp"
#include "cubist/nn/replica_split.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

/// Adds a layer's output F to its input X: Y = X + dropout(F).
/// @tparam Matrix  the type of X, F and Y
template <class Matrix>
class ResidualSum
{
 public:
  explicit ResidualSum(const Dropout& dropout)
      : dropout_{dropout}
  {
  }

  /// What `forward` leaves for `backward`.
  struct Kept
  {
    std::optional<Matrix> y;
    std::optional<Matrix> df;
    std::optional<Matrix> dx;
  };

  /// Returns Y, which is in `kept`.
  /// @throws ShapeError unless the layer has as many outputs as inputs
  const Matrix& forward(const Matrix& x, const Matrix& f, const Pass& pass, Kept& kept) const
  {
    require<ShapeError>(
        f.shape() == x.shape(), "got a layer from ", x.shape(), " to ", f.shape(),
        " in a Residual, so its output cannot be added to its input; give the layer as many "
        "outputs as inputs");
    if (!drops(pass)) return sum_of(x, f, kept.y);
    if (kept.y && kept.y->has_common_memory()) kept.y.reset();  // here each rank writes all rows
    dropout_.add(x, f, fit_like(kept.y, x), *pass.training_step, pass.cut);
    return *kept.y;
  }
  /// Returns dF = mask(dY), which is dY itself without dropout, and in `kept` otherwise.
  const Matrix& backward(const Matrix& dy, const Pass& pass, Kept& kept) const
  {
    if (!drops(pass)) return dy;
    dropout_.apply(dy, fit_like(kept.df, dy), *pass.training_step, pass.cut);
    return *kept.df;
  }
  /// Returns dX = dY + the layer's dX, which is in `kept`; null if the layer's dX is null.
  const Matrix* add_gradients(const Matrix& dy, const Matrix* of_layer, Kept& kept) const
  {
    return of_layer == nullptr ? nullptr : &sum_of(dy, *of_layer, kept.dx);
  }

 private:
  static const Matrix& sum_of(const Matrix& a, const Matrix& b, std::optional<Matrix>& kept)
  {
    ReplicaSplit shared{a};
    Matrix& sum = shared.fit(kept, a);
    shared.begin();
    a.mesh().engine().map(shared.mine(sum.valid()), Sum{}, shared.mine(a.valid()),
                          shared.mine(b.valid()));
    shared.complete();
    return sum;
  }
  [[nodiscard]] bool drops(const Pass& pass) const
  {
    return pass.training_step && dropout_.probability() > 0;
  }

  Dropout dropout_;
};

}  // namespace detail

template <LayerType L>
class Residual
{
  static_assert(
      std::is_same_v<typename L::Input, typename L::Output>,
      "this layer's output has a different layout from its input, so they cannot be "
      "added; put a layer after it that leads back to the input's layout, in a Sequential");

 public:
  using Value = typename L::Value;
  using Mesh = typename L::Mesh;
  using Input = typename L::Input;
  using Output = Input;

  /// Makes the layer Y = X + dropout(layer(X)).
  explicit Residual(L layer, const Dropout& dropout = Dropout{0})
      : layer_{std::move(layer)},
        sum_{dropout}
  {
  }

  /// Returns the layer that the connection wraps.
  [[nodiscard]] L& layer() { return layer_; }
  /// What `forward` leaves for `backward`.
  struct Kept
  {
    typename L::Kept layer;
    typename detail::ResidualSum<Input>::Kept sum;  ///< Y, and dX
  };

  /// Returns Y, which is in `kept`.
  /// @throws ShapeError unless the layer has as many outputs as inputs
  const Output& forward(const Input& x, const Pass& pass, Kept& kept)
  {
    return sum_.forward(x, layer_.forward(x, pass, kept.layer), pass, kept.sum);
  }

  /// Returns dX, which is in `kept`, or null if it is not wanted.
  /// @pre X and the pass are those of the `forward` that filled `kept`
  const Input* backward(const Input& x, const Output& dy, const BackwardPass<Value, Mesh>& pass,
                        Kept& kept, bool wants_dx)
  {
    const Output& df = sum_.backward(dy, pass, kept.sum);
    const Input* dx = layer_.backward(x, df, pass, kept.layer, wants_dx);
    return sum_.add_gradients(dy, wants_dx ? dx : nullptr, kept.sum);
  }

  void append_parameters(Parameters<Value, Mesh>& list, const std::string& prefix)
  {
    layer_.append_parameters(list, prefix);
  }
  void append_state(State<Value, Mesh>& state, const std::string& prefix = "")
  {
    detail::append_state_of(layer_, state, prefix);
  }

 private:
  L layer_;
  detail::ResidualSum<Input> sum_;
};

}  // namespace cubist::CUBIST_ABI
