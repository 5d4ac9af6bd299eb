// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A sequence of layers whose own types are known only at run time, cut in segments of `recompute`
// layers.
//
//   1. Forward keeps a copy of each segment's output only.
//   2. Backward runs forward again in each segment but the last before it passes through.
//
// So only one segment has activations at a time, and layers of one type in different segments share
// what they keep. The second forward has the same operands, pass and dropout masks as the first,
// and therefore the same bits.
//
// Words: those of the layers, and of a second forward of all segments but the last.
// Source: Chen et al., "Training Deep Nets with Sublinear Memory Cost", arXiv 1604.06174.

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "cubist/core/error.hpp"
#include "cubist/engine/span.hpp"
#include "cubist/gradients/gradient_reducer.hpp"
#include "cubist/nn/layer.hpp"
#include "cubist/nn/networks/any_layer.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// @tparam A the matrices between layers  @tparam Layer an AnyLayer
template <class A, class Layer>
class LayerStack
{
  static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

 public:
  /// @param forward, backward  what spans of layers are called
  /// @param recompute  layers of a segment; 0 for all, and so no recomputation
  /// @param first  the number that the first layer has in spans
  LayerStack(const char* forward, const char* backward, std::size_t recompute,
             std::size_t first = 0)
      : forward_{forward},
        backward_{backward},
        length_{recompute == 0 ? none : recompute},
        first_{first}
  {
  }

  Layer& add(std::unique_ptr<Layer> layer) { return *layers_.emplace_back(std::move(layer)); }

  [[nodiscard]] const std::vector<std::unique_ptr<Layer>>& layers() const { return layers_; }

  /// What a forward leaves for its backward. It is not copied, since it refers to itself.
  class Kept
  {
   public:
    Kept() = default;
    Kept(const Kept&) = delete;
    Kept& operator=(const Kept&) = delete;

    /// Whether a forward has succeeded, and no backward has followed it.
    [[nodiscard]] bool awaits_backward() const { return has_output_ && !has_passed_back_; }
    /// No backward is possible until the next forward.
    void discard() { has_output_ = false; }
    /// The pass of the forward.
    [[nodiscard]] const Pass& pass() const { return pass_; }
    /// @throws ArgumentError without a forward
    void require_forward() const
    {
      require<ArgumentError>(has_output_,
                             "got backward before any forward, after one that failed, or after "
                             "an evaluation or a generation that has used the memory of the last "
                             "forward, so there is no output for the gradient; call forward first");
    }

   private:
    friend LayerStack;

    std::vector<std::unique_ptr<AnyKept>> sets_;
    std::vector<std::size_t> set_of_;            // each layer
    std::vector<const A*> inputs_;               // the input of each layer
    std::vector<std::optional<A>> outputs_;      // of each segment, if there are several
    std::array<std::optional<A>, 2> gradients_;  // of outputs of even and odd layers: two layouts
    std::size_t segment_ = none;                 // the one whose activations are kept
    bool has_output_ = false;
    bool has_passed_back_ = false;
    bool takes_turns_ = false;  // layers of one type have two sets, for evaluation
    Pass pass_;
  };

  /// Y, which is in `kept` or in the last layer's part of it.
  /// @param x  stays as it is until `backward` is called for the last time
  const A& forward(const A& x, const Pass& pass, Kept& kept)
  {
    kept.discard();
    kept.pass_ = pass;
    if (kept.set_of_.size() != layers_.size() || kept.takes_turns_) prepare(kept);
    const A* y = &x;
    for (std::size_t s = 0; s < segments(); ++s)
    {
      y = &run(s, *y, kept);
      if (segments() > 1) y = &copy_to(kept.outputs_[s], *y);
    }
    kept.has_output_ = true;
    kept.has_passed_back_ = false;
    return *y;
  }

  /// Y without a backward. Layers of one type take turns with two sets of what a forward keeps, so
  /// that a deep network needs the memory of two layers; a set that a training forward has made is
  /// used as it is.
  const A& evaluate(const A& x, const Pass& pass, Kept& kept)
  {
    const bool is_prepared = kept.set_of_.size() == layers_.size();
    if (is_prepared && !kept.takes_turns_)
    {
      const A& y = forward(x, pass, kept);
      kept.discard();
      return y;
    }
    kept.discard();
    if (!is_prepared) prepare_turns(kept);
    const A* y = &x;
    for (std::size_t i = 0; i < layers_.size(); ++i)
    {
      const Span span{x.mesh().engine(), {forward_, first_ + i}};
      y = &layers_[i]->forward(*y, pass, set(kept, i));
    }
    return *y;
  }

  /// Returns dX, or null if it is not wanted.
  /// @param first the first layer that is trained: those before it, all of whose parameters are
  /// frozen, are left out, and there is no dX unless it is 0
  template <class T>
  const A* backward(const A& dy, GradientReducer<T, typename A::Mesh>& gradients, Kept& kept,
                    bool wants_dx, std::size_t first = 0)
  {
    kept.require_forward();
    kept.has_passed_back_ = true;
    const BackwardPass<T, typename A::Mesh> pass{kept.pass_, gradients};
    const A* d = &dy;
    for (std::size_t s = segments(); s-- > 0 && end(s) > first;)
    {
      if (s != kept.segment_)
      {
        // The layer that owns dY will pass its memory on.
        d = &copy_to(kept.gradients_[end(s) % 2], *d);
        run(s, *kept.inputs_[s * length_], kept);
      }
      for (std::size_t i = end(s); i-- > std::max(s * length_, first);)
      {
        const Span span{d->mesh().engine(), {backward_, first_ + i}};
        d = layers_[i]->backward(*kept.inputs_[i], *d, pass, set(kept, i), i > first || wants_dx);
      }
    }
    return first == 0 ? d : nullptr;
  }

 private:
  [[nodiscard]] std::size_t segments() const
  {
    return layers_.empty() ? 0 : (layers_.size() - 1) / length_ + 1;
  }
  [[nodiscard]] std::size_t end(std::size_t segment) const
  {
    return segment + 1 == segments() ? layers_.size() : (segment + 1) * length_;
  }
  [[nodiscard]] static AnyKept& set(Kept& kept, std::size_t layer)
  {
    return *kept.sets_[kept.set_of_[layer]];
  }

  /// Gives each layer a set of what it keeps: the set of a layer of its type in an earlier segment,
  /// or a new one.
  void prepare(Kept& kept) const
  {
    share_sets(kept,
               [&](std::size_t i, std::size_t last) { return i / length_ == last / length_; });
    kept.takes_turns_ = false;
    kept.inputs_.resize(layers_.size());
    kept.outputs_.resize(segments());
  }
  /// Prepares `kept` for an evaluation: a layer reads what the layer before it keeps, and nothing
  /// else.
  void prepare_turns(Kept& kept) const
  {
    share_sets(kept, [](std::size_t i, std::size_t last) { return i == last + 1; });
    kept.takes_turns_ = true;
  }
  /// Gives each layer the first set of its type that is free, or a new one.
  /// @param in_use  whether layer i may not have the set that layer `last` was the last to get
  template <class InUse>
  void share_sets(Kept& kept, InUse in_use) const
  {
    kept.sets_.clear(), kept.set_of_.clear();
    std::vector<std::size_t> last;  // layer that got each set
    for (std::size_t i = 0; i < layers_.size(); ++i)
    {
      std::size_t s = 0;
      while (s < kept.sets_.size() && (in_use(i, last[s]) || !layers_[i]->fits(*kept.sets_[s])))
        ++s;
      if (s == kept.sets_.size())
      {
        kept.sets_.push_back(layers_[i]->make_kept());
        last.push_back(i);
      }
      last[s] = i;
      kept.set_of_.push_back(s);
    }
  }

  /// Passes X through the layers of a segment.
  const A& run(std::size_t segment, const A& x, Kept& kept)
  {
    kept.segment_ = none;
    const A* y = &x;
    for (std::size_t i = segment * length_; i < end(segment); ++i)
    {
      const Span span{x.mesh().engine(), {forward_, first_ + i}};
      kept.inputs_[i] = std::exchange(y, &layers_[i]->forward(*y, kept.pass_, set(kept, i)));
    }
    kept.segment_ = segment;
    return *y;
  }

  const char* forward_;
  const char* backward_;
  std::size_t length_;  // layers of a segment
  std::size_t first_;   // number of the first layer
  std::vector<std::unique_ptr<Layer>> layers_;
};

}  // namespace cubist::CUBIST_ABI::detail
