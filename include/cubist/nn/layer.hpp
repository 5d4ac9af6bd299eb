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

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include "cubist/core/block.hpp"
#include "cubist/core/error.hpp"
#include "cubist/dist/state.hpp"
#include "cubist/engine/span.hpp"
#include "cubist/nn/parameter.hpp"

namespace cubist
{

/// What a pass through layers needs beside its matrices.
struct Pass
{
  /// The step that dropout masks are drawn for; none in evaluation.
  std::optional<std::uint64_t> training_step = {};
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

/// The same, with the elements of `from`, which has its layout.
template <class A, class From>
const A& copy_to(std::optional<A>& kept, const From& from)
{
  const auto source = from.view();
  if (!kept || kept->shape() != source.shape || kept->view().quanta != source.quanta)
    return kept.emplace(from);
  from.mesh().engine().copy(source.padded, kept->view().padded);
  return *kept;
}

/// Exchanges the activations of two layers if they have a function for it.
template <LayerType L>
void swap_activations_of(L& a, L& b)
{
  if constexpr (requires { a.swap_activations(b); }) a.swap_activations(b);
}

/// A layer from matrices of type A to such, whose own type is known at run time only.
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
  /// @pre the other layer has the same type
  virtual void swap_activations(AnyLayer& other) = 0;
};

/// Layers one after the other, from and to matrices of type A, cut in segments of `recompute`
/// layers. Forward keeps a copy of each segment's output only; backward runs forward again in each
/// segment but the last before it passes through. Then only one segment has activations at a time,
/// which layers of one type in different segments pass to each other. The second forward has the
/// same operands, the same pass and so the same dropout masks: its bits are those of the first.
/// Source: Chen et al., "Training Deep Nets with Sublinear Memory Cost", arXiv 1604.06174.
/// @tparam Layer an AnyLayer
template <class A, class Layer>
class LayerStack
{
  static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

 public:
  /// @param forward, backward  what spans of layers are called
  /// @param recompute  layers of a segment; 0 for all, and so no recomputation
  LayerStack(const char* forward, const char* backward, std::size_t recompute)
      : forward_{forward}, backward_{backward}, length_{recompute == 0 ? none : recompute}
  {
  }

  void add(std::unique_ptr<Layer> layer)
  {
    const std::size_t i = layers_.size();
    const std::size_t segment = i / length_;
    const Layer& added = *layer;
    const auto is_free = [&](const Memory& m) {
      const Layer& user = *layers_[m.user];
      return m.segment != segment && typeid(user) == typeid(added);
    };
    const auto memory = std::find_if(memories_.begin(), memories_.end(), is_free);
    memory_of_.push_back(static_cast<std::size_t>(memory - memories_.begin()));
    if (memory == memories_.end())
      memories_.push_back({i, segment});
    else
      memory->segment = segment;
    layers_.push_back(std::move(layer));
    inputs_.push_back(nullptr);
    outputs_.resize(segment + 1);
  }

  [[nodiscard]] const std::vector<std::unique_ptr<Layer>>& layers() const { return layers_; }

  /// Y, which the stack or its last layer owns, and which the next `forward` overwrites.
  /// @param x  stays as it is until `backward` is called for the last time
  const A& forward(const A& x, const Pass& pass)
  {
    discard();
    pass_ = pass;
    const A* y = &x;
    for (std::size_t s = 0; s < outputs_.size(); ++s)
    {
      y = &run(s, *y);
      if (outputs_.size() > 1) y = &copy_to(outputs_[s], *y);
    }
    has_output_ = true;
    return *y;
  }
  /// There is no backward until the next `forward`.
  void discard() { has_output_ = false; }
  /// @throws ArgumentError without a forward
  void require_forward() const
  {
    require<ArgumentError>(has_output_,
                           "got backward before any forward, or after one that failed, so there is "
                           "no output for the gradient; call forward first");
  }

  /// Returns dX, or null where it is not wanted.
  const A* backward(const A& dy, bool wants_dx)
  {
    require_forward();
    const A* d = &dy;
    for (std::size_t s = outputs_.size(); s-- > 0;)
    {
      if (s != segment_)
      {
        // The layer that owns dY will pass its memory on.
        d = &copy_to(gradients_[end(s) % 2], *d);
        run(s, *inputs_[s * length_]);
      }
      for (std::size_t i = end(s); i-- > s * length_;)
      {
        const Span span{d->mesh().engine(), {backward_, i}};
        d = layers_[i]->backward(*inputs_[i], *d, pass_, i > 0 || wants_dx);
      }
    }
    return d;
  }
  void finish_backward()
  {
    for (auto& layer : layers_) layer->finish_backward();
  }

 private:
  /// The activations of one layer of each segment.
  struct Memory
  {
    std::size_t user;     // the layer that has them now
    std::size_t segment;  // the last one that will use them
  };

  [[nodiscard]] std::size_t end(std::size_t segment) const
  {
    return segment + 1 == outputs_.size() ? layers_.size() : (segment + 1) * length_;
  }

  /// Passes X through the layers of a segment.
  const A& run(std::size_t segment, const A& x)
  {
    segment_ = none;
    const A* y = &x;
    for (std::size_t i = segment * length_; i < end(segment); ++i)
    {
      const Span span{x.mesh().engine(), {forward_, i}};
      std::size_t& user = memories_[memory_of_[i]].user;
      if (user != i) layers_[i]->swap_activations(*layers_[user]);
      user = i;
      inputs_[i] = std::exchange(y, &layers_[i]->forward(*y, pass_));
    }
    segment_ = segment;
    return *y;
  }

  const char* forward_;
  const char* backward_;
  std::size_t length_;  // layers of a segment
  std::vector<std::unique_ptr<Layer>> layers_;
  std::vector<const A*> inputs_;               // of each layer
  std::vector<std::optional<A>> outputs_;      // of each segment, if there are several
  std::array<std::optional<A>, 2> gradients_;  // of outputs of even and odd layers: two layouts
  std::vector<Memory> memories_;
  std::vector<std::size_t> memory_of_;  // each layer
  std::size_t segment_ = none;          // whose activations are those of the last forward
  bool has_output_ = false;
  Pass pass_;  // the last forward
};

}  // namespace detail

}  // namespace cubist
