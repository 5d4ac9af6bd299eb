// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A layer beside its input: Y = X + dropout(layer(X)).
//
//   X, Y: the layer's Input, which is its Output
//
//   dX = dY + dX of the layer, whose dY is mask(dY)
//
// Where replicas of X share memory, each adds a part of the rows (nn/functions/replica_split.hpp).
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
#include "cubist/nn/functions/replica_split.hpp"
#include "cubist/nn/layer.hpp"
#include "cubist/nn/layers/dropout.hpp"
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
  /// What a forward leaves for its backward.
  struct Kept
  {
    typename L::Kept layer;
    std::optional<Output> y;
    std::optional<Output> df;
    std::optional<Input> dx;
  };

  /// Y, in `kept`.
  /// @throws ShapeError unless the layer has as many outputs as inputs
  const Output& forward(const Input& x, const Pass& pass, Kept& kept)
  {
    const Output& f = layer_.forward(x, pass, kept.layer);
    require<ShapeError>(
        f.shape() == x.shape(), "got a layer from ", x.shape(), " to ", f.shape(),
        " in a Residual, so its output cannot be added to its input; give the layer as many "
        "outputs as inputs");
    if (drops(pass))
    {
      if (kept.y && kept.y->has_common_memory()) kept.y.reset();  // here each rank writes all rows
      Output& y = fit_like(kept.y, x);
      dropout_.add(x, f, y, *pass.training_step, pass.cut);
      return y;
    }
    return sum_of(x, f, kept.y);
  }

  /// dX = dY + dX of the layer, for mask(dY); in `kept`, or null if it is not wanted.
  /// @pre X and the pass are the same as in the forward of `kept`
  const Input* backward(const Input& x, const Output& dy, const BackwardPass<Value, Mesh>& pass,
                        Kept& kept, bool wants_dx)
  {
    const Output* df = &dy;
    if (drops(pass))
    {
      dropout_.apply(dy, fit_like(kept.df, dy), *pass.training_step, pass.cut);
      df = &*kept.df;
    }
    const Input* of_layer = layer_.backward(x, *df, pass, kept.layer, wants_dx);
    if (!wants_dx) return nullptr;
    return &sum_of(dy, *of_layer, kept.dx);
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
  static const Input& sum_of(const Input& a, const Input& b, std::optional<Input>& kept)
  {
    ReplicaSplit shared{a};
    Input& sum = shared.fit(kept, a);
    shared.begin();
    a.mesh().engine().map(shared.mine(sum.valid()), detail::Sum{}, shared.mine(a.valid()),
                          shared.mine(b.valid()));
    shared.complete();
    return sum;
  }
  [[nodiscard]] bool drops(const Pass& pass) const
  {
    return pass.training_step && dropout_.probability() > 0;
  }

  L layer_;
  Dropout dropout_;
};

}  // namespace cubist::CUBIST_ABI
