// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The interface of the layers that networks are made of: forward, backward, parameters.
// docs/layers.md shows how to write a layer.
//
//   X (M, K) L::Input    Y (M, N) L::Output    dY like Y    dX like X
//
// A layer is its parameters and their gradients. What `forward` leaves for `backward`, such as Y,
// is in a struct L::Kept that the caller owns: one for each `forward` whose `backward` is still to
// come. A Kept that is used again keeps its memory, so steps after the first allocate nothing.

#include <concepts>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "cubist/core/block.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/gradients/gradient_reducer.hpp"
#include "cubist/gradients/parameter.hpp"
#include "cubist/matrix/sequence_cut.hpp"
#include "cubist/matrix/state.hpp"
#include "cubist/nn/training_step.hpp"

namespace cubist::CUBIST_ABI
{

/// What a pass through layers needs besides its matrices.
struct Pass
{
  /// The step for which dropout masks are drawn; none in evaluation.
  std::optional<TrainingStep> training_step = {};
  /// The number of tokens in each sequence. Rows [b sequence, (b + 1) sequence) belong to sequence
  /// b, unless `cut` gives another order.
  std::size_t sequence = 1;
  /// The position of the first token of each sequence.
  std::size_t position = 0;
  /// The order of rows if several ranks share a sequence; `position` is 0 then.
  SequenceCut cut = {};
};

/// The pass of the `forward` that a `backward` belongs to, and the reducer that takes the gradients
/// of parameters.
template <Scalar T, class M>
struct BackwardPass : Pass
{
  /// @param reducer outlives the pass
  BackwardPass(const Pass& pass, GradientReducer<T, M>& reducer)
      : Pass{pass},
        gradients{reducer}
  {
  }

  GradientReducer<T, M>& gradients;
};

// clang-format off
template <class L>
concept LayerType = requires {
  typename L::Value;   // T
  typename L::Mesh;
  typename L::Input;   // a DistMatrix
  typename L::Output;  // a DistMatrix
} && std::default_initializable<typename L::Kept>
  && requires(L& layer, const typename L::Input& x, const typename L::Output& dy, const Pass& pass,
              const BackwardPass<typename L::Value, typename L::Mesh>& back,
              typename L::Kept& kept, Parameters<typename L::Value, typename L::Mesh>& list) {
  // Returns Y, which is in `kept`.
  { layer.forward(x, pass, kept) } -> std::same_as<const typename L::Output&>;
  // Returns dX, which is in `kept`, or null if it is not wanted. x, the pass and `kept` are those
  // of `forward`. Overwrites the gradients of parameters, and passes each to back.gradients.
  { layer.backward(x, dy, back, kept, true) } -> std::same_as<const typename L::Input*>;
  layer.append_parameters(list, std::string{});  // names begin with the prefix
};
// clang-format on

/// Returns a matrix in a Kept, for an output or a gradient. The first call makes it, and so does a
/// call with another shape or padding.
template <class Matrix>
Matrix& fit(std::optional<Matrix>& kept, const typename Matrix::Mesh& mesh, Shape shape,
            Quanta quanta)
{
  if (!kept || kept->shape() != shape || kept->quanta() != quanta)
    kept.emplace(mesh, shape, quanta);
  return *kept;
}
/// Returns a matrix in a Kept, as `fit` does, with the shape and padding of another one.
template <class Matrix>
Matrix& fit_like(std::optional<Matrix>& kept, const Matrix& like)
{
  return fit(kept, like.mesh(), like.shape(), like.quanta());
}

/// Returns the parameters of a layer, for an optimizer: weight, bias, …, each with a prefix.
template <LayerType L>
[[nodiscard]] auto parameters_of(L& layer, const std::string& prefix = "")
{
  Parameters<typename L::Value, typename L::Mesh> list;
  layer.append_parameters(list, prefix);
  return list;
}

/// Returns the parameters of a network that is a layer and whose passes take
/// `gradients->reducer()`. Each parameter refers to `gradients`, so that Sharded,
/// GradientAccumulation and Trainer find it.
template <LayerType L>
[[nodiscard]] auto
parameters_of(L& layer,
              const std::shared_ptr<Gradients<typename L::Value, typename L::Mesh>>& gradients)
{
  auto list = parameters_of(layer);
  for (auto& p : list) p.gradients = gradients;
  return list;
}

namespace detail
{

/// What a `forward` leaves for `backward`, if its type is known only at run time.
class AnyKept
{
 public:
  virtual ~AnyKept() = default;
};

/// @throws ArgumentError unless `forward` has left what `backward` needs
inline void require_forward(bool has_output)
{
  require<ArgumentError>(has_output,
                         "got backward before any forward, or after one that failed, so there is "
                         "no output for the gradient; call forward first");
}

/// Appends what a checkpoint saves of a layer: what the layer's `append_state` adds, or the values
/// of its parameters if it has no such function.
template <LayerType L>
void append_state_of(L& layer, State<typename L::Value, typename L::Mesh>& state,
                     const std::string& prefix)
{
  if constexpr (requires { layer.append_state(state, prefix); })
    layer.append_state(state, prefix);
  else
    for (const auto& p : parameters_of(layer, prefix))
    {
      require_elements(p, "a checkpoint");
      state.matrices.push_back({p.name, p.value});
    }
}

}  // namespace detail

}  // namespace cubist::CUBIST_ABI
