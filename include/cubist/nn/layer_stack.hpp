// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Layers one after the other, whose own types are known at run time only, cut in segments of
// `recompute` layers.
//
//   1. Forward keeps a copy of each segment's output only.
//   2. Backward runs forward again in each segment but the last before it passes through.
//
// So one segment has activations at a time, which layers of one type in different segments pass to
// each other. The second forward has the same operands and the same pass, and so the same dropout
// masks: its bits are those of the first.
//
// Words: those of the layers, and of a second forward of all segments but the last.
// Source: Chen et al., "Training Deep Nets with Sublinear Memory Cost", arXiv 1604.06174.

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <memory>
#include <optional>
#include <typeinfo>
#include <utility>
#include <vector>

#include "cubist/core/error.hpp"
#include "cubist/engine/span.hpp"
#include "cubist/nn/layer.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// The matrix that is kept, with the elements of `from`, which has its layout.
template <class A, class From>
const A& copy_to(std::optional<A>& kept, const From& from)
{
  const auto source = from.view();
  if (!kept || kept->shape() != source.shape || kept->view().quanta != source.quanta)
    return kept.emplace(from);
  from.mesh().engine().copy(source.padded, kept->view().padded);
  return *kept;
}

/// @tparam A the matrices between layers  @tparam Layer an AnyLayer
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
                           "got backward before any forward, after one that failed, or after an "
                           "evaluation or a generation, which overwrites what forward kept, so "
                           "there is no output for the gradient; call forward first");
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

}  // namespace cubist::CUBIST_ABI::detail
