// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// How a gradient gets from the layer that computes it to the optimizer that reads it.
//
//   1. The network calls `begin` on its reducer, and passes it to the layers with the pass
//      (nn/layer.hpp).
//   2. A layer's `backward` writes a gradient into the gradient's own memory. On each rank, that is
//      one term of the sum over some replicas, or the complete gradient. The layer calls `sum`, and
//      does not touch the gradient again.
//   3. The reducer starts its work, which overlaps with the layers before this one.
//   4. The network calls `finish`, the only wait, at the end of its `backward`.
//
// Networks use three reducers. Each passes on the work that it does not do itself:
//
//   GradientBuckets      sums over replicas; small gradients travel together
//                        (gradients/gradient_buckets.hpp). Every network has one.
//   GradientAccumulation adds up the gradients of several backward passes, and hands on their mean
//                        with the last (gradients/gradient_accumulation.hpp).
//   ShardedParameters    sums only each replica's part, for the optimizer that updates this part
//                        (training/sharded_parameters.hpp).
//
// A backward pass computes its gradients in the same order on every rank and in every step.
// Reducers rely on this.

#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/matrix/layout.hpp"
#include "cubist/mesh/axes.hpp"

namespace cubist::CUBIST_ABI
{

/// Takes the gradients of a backward pass.
/// @tparam M the mesh of the network
template <Scalar T, class M>
class GradientReducer
{
 public:
  using Communicator = typename M::Communicator;

  virtual ~GradientReducer() = default;

  /// Begins a backward pass. Waits for the sums of an earlier one that an error interrupted on
  /// every rank, and forgets them.
  virtual void begin() {}
  /// Takes a gradient. Nobody may access it before `finish` returns.
  /// @param gradient  this rank's term of the sum over `replicas` or, if that is null, the complete
  /// gradient
  virtual void reduce(MatrixView<T> gradient, Communicator* replicas) = 0;
  /// Completes the gradients of the backward pass.
  virtual void finish() {}
  /// Forgets the backward passes of an incomplete step, if the reducer adds up several.
  virtual void restart() {}

  /// Takes a gradient whose terms are on the ranks along `A...`; without axes, it is complete.
  template <class... A>
  void sum(const M& mesh, Axes<A...> axes, MatrixView<T> gradient)
  {
    reduce(gradient, detail::replicas_along(mesh, axes));
  }
};

/// Sums each gradient as soon as it is given, for calls that return complete gradients.
template <Scalar T, class M>
class ImmediateSums final : public GradientReducer<T, M>
{
 public:
  using typename GradientReducer<T, M>::Communicator;

  void reduce(MatrixView<T> gradient, Communicator* replicas) override
  {
    if (replicas) replicas->all_reduce(gradient.elements());
  }
};

}  // namespace cubist::CUBIST_ABI
