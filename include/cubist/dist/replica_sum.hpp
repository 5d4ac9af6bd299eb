// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The asynchronous sum of a block over its replicas along some axes of the mesh. It forms the
// gradient of a replicated parameter, unless a GradientSink takes it over. Small blocks are packed
// (gradient_buckets.hpp).
//
// Elements sent per rank: 2 (P-1)/P of the block, for P ranks along the axes.

#include <any>
#include <utility>

#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/dist/gradient_buckets.hpp"
#include "cubist/dist/pending_sum.hpp"
#include "cubist/mesh/axes.hpp"
#include "cubist/mesh/mesh.hpp"

namespace cubist::CUBIST_ABI
{

/// What takes the gradients that backward passes compute, once it is installed on their mesh
/// (GradientSinkScope): to add up those of several passes, or to sum each replica's part only.
template <Scalar T, class C>
class GradientSink
{
 public:
  virtual ~GradientSink() = default;
  /// @param gradient of this rank: a part of the sum over `replicas` or, where that is null,
  /// complete Returns what the layer waits for.
  virtual ReplicaSum<C> take(MatrixView<T> gradient, C* replicas) = 0;
};

/// Installs a sink on a mesh, on this rank and until the end of the scope; null for sums that are
/// neither taken nor packed.
template <Scalar T, class M>
class GradientSinkScope
{
 public:
  /// What takes the gradients.
  using Sink = GradientSink<T, typename M::Communicator>;

  /// Until it is destroyed, gradients of layers on the mesh go to `sink`; null for none.
  GradientSinkScope(const M& mesh, Sink* sink)
      : mesh_{mesh}, former_{std::exchange(mesh.gradient_sink(), std::any{sink})}
  {
  }
  GradientSinkScope(const GradientSinkScope&) = delete;
  GradientSinkScope& operator=(const GradientSinkScope&) = delete;
  ~GradientSinkScope() { mesh_.gradient_sink() = std::move(former_); }

 private:
  M mesh_;
  std::any former_;
};

namespace detail
{

/// Passes a gradient to the mesh's sink; without one, starts its sum over `replicas` if there are
/// any, in a bucket.
template <class M, Scalar T>
[[nodiscard]] ReplicaSum<typename M::Communicator>
take_gradient(const M& mesh, MatrixView<T> gradient, typename M::Communicator* replicas)
{
  using C = typename M::Communicator;
  auto* const* sink = std::any_cast<GradientSink<T, C>*>(&mesh.gradient_sink());
  if (sink && *sink) return (*sink)->take(gradient, replicas);
  if (!replicas) return {};
  if (sink) return {*replicas, gradient};
  return buckets_of<T>(mesh).sum(mesh.engine(), gradient, *replicas);
}

}  // namespace detail

/// Starts the sum of a gradient along `A...`, of which each rank has a part; without axes it is
/// complete.
template <class M, Scalar T, class... A>
[[nodiscard]] ReplicaSum<typename M::Communicator> sum_replicas(const M& mesh, Axes<A...>,
                                                                MatrixView<T> gradient)
{
  if constexpr (sizeof...(A) > 0)
    if ((mesh.template extent<A>() * ...) > 1)
      return detail::take_gradient(mesh, gradient, &mesh.template along<A...>());
  return detail::take_gradient(mesh, gradient, nullptr);
}

}  // namespace cubist::CUBIST_ABI
