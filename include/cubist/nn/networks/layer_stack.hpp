// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A sequence of layers whose types are known only at run time, cut into segments of `recompute`
// layers.
//
//   1. `forward` keeps only a copy of each segment's output.
//   2. Before `backward` passes through a segment, it runs the segment forward again, unless it is
//      the last.
//
// So only one segment has activations at a time, and layers of one type in different segments share
// the memory for them. The second forward pass has the same operands, pass and dropout masks as the
// first, and therefore the same bits.
//
// Elements that one rank sends: what the layers send, and once more what a forward pass through all
// segments but the last sends.
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
  /// @param forward, backward  the names of the layers' spans
  /// @param recompute the number of layers in a segment; 0 puts all into one, which is never
  /// recomputed
  /// @param first the number of the first layer in the names of spans
  /// @param are_alike  whether all layers have the same sizes, so that in an evaluation one set of
  /// kept matrices fits each of them
  LayerStack(const char* forward, const char* backward, std::size_t recompute,
             std::size_t first = 0, bool are_alike = false)
      : forward_{forward},
        backward_{backward},
        length_{recompute == 0 ? none : recompute},
        first_{first},
        are_alike_{are_alike}
  {
  }

  Layer& add(std::unique_ptr<Layer> layer) { return *layers_.emplace_back(std::move(layer)); }

  [[nodiscard]] const std::vector<std::unique_ptr<Layer>>& layers() const { return layers_; }

  /// What `forward` leaves for `backward`. It cannot be copied, since it refers to itself.
  class Kept
  {
   public:
    Kept() = default;
    Kept(Kept&&) = delete;

    /// Whether a `forward` has succeeded and no `backward` has followed it.
    [[nodiscard]] bool awaits_backward() const { return has_output_ && !has_passed_back_; }
    /// Makes `backward` impossible until the next `forward`.
    void discard() { has_output_ = false; }
    /// The pass that `forward` was given.
    [[nodiscard]] const Pass& pass() const { return pass_; }
    /// @throws ArgumentError if `forward` has not run
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
    std::vector<std::size_t> set_of_;            // the set of each layer
    std::vector<const A*> inputs_;               // the input of each layer
    std::vector<std::optional<A>> outputs_;      // the output of each segment, if there are several
    std::array<std::optional<A>, 2> gradients_;  // for outputs of even and odd layers: two layouts
    std::size_t segment_ = none;                 // the segment whose activations are kept
    bool has_output_ = false;
    bool has_passed_back_ = false;
    bool takes_turns_ = false;  // in evaluation, layers of one type share one or two sets
    std::optional<A> input_;    // in evaluation, the input of a layer that shares its set
    Pass pass_;
  };

  /// Returns Y, which `kept` or the last layer's part of it owns.
  /// @param x  must not change until the last call of `backward`
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

  /// Returns Y if no `backward` will follow. Layers of one type alternate between two sets of kept
  /// matrices, so a deep network needs the memory of only two layers. If they are alike, they share
  /// one set, and a copy of the input of each. If `forward` has made sets before, it uses those
  /// instead.
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
      if (i > 0 && kept.set_of_[i] == kept.set_of_[i - 1]) y = &copy_to(kept.input_, *y);
      y = &layers_[i]->forward(*y, pass, set(kept, i));
    }
    return *y;
  }

  /// Returns dX, or null if it is not wanted.
  /// @param first the first layer that is trained: `backward` skips the layers before it, whose
  /// parameters are all frozen, and computes dX only if `first` is 0
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
        // The layer that owns dY will hand its memory to another layer.
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

  /// Gives each layer a set of kept matrices: that of a layer of its type in an earlier segment, or
  /// a new one.
  void prepare(Kept& kept) const
  {
    share_sets(kept,
               [&](std::size_t i, std::size_t last) { return i / length_ == last / length_; });
    kept.takes_turns_ = false;
    kept.inputs_.resize(layers_.size());
    kept.outputs_.resize(segments());
  }
  /// Prepares `kept` for an evaluation, in which a layer reads only what the layer before it keeps.
  void prepare_turns(Kept& kept) const
  {
    share_sets(kept, [&](std::size_t i, std::size_t last) { return !are_alike_ && i == last + 1; });
    kept.takes_turns_ = true;
  }
  /// Gives each layer the first set of its type that is free, or a new one.
  /// @param in_use  in_use(i, last): whether layer i may not take the set that layer `last` got
  /// most recently
  template <class InUse>
  void share_sets(Kept& kept, InUse in_use) const
  {
    kept.sets_.clear(), kept.set_of_.clear();
    std::vector<std::size_t> last;  // the layer that got each set most recently
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
  std::size_t length_;  // the layers of a segment
  std::size_t first_;   // the number of the first layer
  bool are_alike_;
  std::vector<std::unique_ptr<Layer>> layers_;
};

}  // namespace cubist::CUBIST_ABI::detail
