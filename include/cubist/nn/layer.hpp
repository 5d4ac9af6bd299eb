// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The interface of layers, of which networks are made: forward, backward, parameters.
// docs/layers.md writes a layer.
//
//   X (M, K) L::Input    Y (M, N) L::Output    dY like Y    dX like X
//
// A layer may have one function more, swap_activations(L& other), which exchanges what forward and
// backward overwrite (Y, dX, what they keep and their workspace) with those of another layer of the
// same type. LayerStack calls it where activations are recomputed: so layers share memory.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "cubist/core/block.hpp"
#include "cubist/dist/state.hpp"
#include "cubist/nn/parameter.hpp"
#include "cubist/nn/random.hpp"

namespace cubist::CUBIST_ABI
{

/// What a pass through layers needs beside its matrices.
struct Pass
{
  /// The step that dropout masks are drawn for; none in evaluation.
  std::optional<TrainingStep> training_step = {};
  /// The tokens of each sequence: rows [b sequence, (b + 1) sequence) are those of sequence b.
  std::size_t sequence = 1;
  /// The position of the first token of each sequence.
  std::size_t position = 0;
};

// clang-format off
template <class L>
concept LayerType = requires {
  typename L::Value;   // T
  typename L::Mesh;
  typename L::Input;   // a DistMatrix
  typename L::Output;  // a DistMatrix
} && requires(L& layer, const typename L::Input& x, const typename L::Output& dy, const Pass& pass,
              Parameters<typename L::Value, typename L::Mesh>& list) {
  // Y, which the layer owns, and overwrites in the next forward
  { layer.forward(x, pass) } -> std::same_as<const typename L::Output&>;
  // dX, which the layer owns, or null where it is not wanted; x and pass are those of the last
  // forward. The gradients of parameters, which it overwrites, may be in flight.
  { layer.backward(x, dy, pass, true) } -> std::same_as<const typename L::Input*>;
  layer.finish_backward();                       // waits for them
  layer.append_parameters(list, std::string{});  // names begin with the prefix
};
// clang-format on

/// The parameters of a layer, for an optimizer: weight, bias, …, with a prefix.
template <LayerType L>
[[nodiscard]] auto parameters_of(L& layer, const std::string& prefix = "")
{
  Parameters<typename L::Value, typename L::Mesh> list;
  layer.append_parameters(list, prefix);
  return list;
}

namespace detail
{

/// What a checkpoint keeps of a layer: what the layer's `append_state` says, or else its
/// parameters' values.
template <LayerType L>
void append_state_of(L& layer, State<typename L::Value, typename L::Mesh>& state,
                     const std::string& prefix)
{
  if constexpr (requires { layer.append_state(state, prefix); })
    layer.append_state(state, prefix);
  else
    for (const auto& p : parameters_of(layer, prefix)) state.matrices.push_back({p.name, p.value});
}

/// The matrix that a layer keeps for its output or its gradient: made when it is first needed, and
/// again when its shape or padding changes.
template <class Matrix>
Matrix& fit(std::optional<Matrix>& kept, const typename Matrix::Mesh& mesh, Shape shape,
            Quanta quanta)
{
  if (!kept || kept->shape() != shape || kept->quanta() != quanta)
    kept.emplace(mesh, shape, quanta);
  return *kept;
}
/// The same, like another matrix.
template <class Matrix>
Matrix& fit_like(std::optional<Matrix>& kept, const Matrix& like)
{
  return fit(kept, like.mesh(), like.shape(), like.quanta());
}

/// Exchanges the activations of two layers if they have a function for it.
template <LayerType L>
void swap_activations_of(L& a, L& b)
{
  if constexpr (requires { a.swap_activations(b); }) a.swap_activations(b);
}

/// A layer from matrices of type A to such, whose own type is known at run time only.
template <class A, class T>
class AnyLayer
{
 public:
  using List = Parameters<T, typename A::Mesh>;

  virtual ~AnyLayer() = default;
  virtual const A& forward(const A& x, const Pass& pass) = 0;
  /// Returns dX, or null where it is not wanted.
  virtual const A* backward(const A& x, const A& dy, const Pass& pass, bool wants_dx) = 0;
  /// Waits until the gradients of `backward` are complete.
  virtual void finish_backward() = 0;
  virtual void append_parameters(List& list, const std::string& prefix) = 0;
  /// @pre the other layer has the same type
  virtual void swap_activations(AnyLayer& other) = 0;
};

}  // namespace detail

}  // namespace cubist::CUBIST_ABI
