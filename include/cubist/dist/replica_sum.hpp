// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The sum of a matrix over its replicas along some axes of the mesh, on its way: what completes the
// gradient of anything replicated.
//
// Words: 2 (P-1)/P of the block a rank, P being the ranks along the axes.

#include <optional>
#include <utility>

#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/mesh/axes.hpp"
#include "cubist/mesh/mesh.hpp"

namespace cubist
{

/// @tparam C the communicator that it travels on
template <class C>
class ReplicaSum
{
 public:
  /// Nothing is under way.
  ReplicaSum() = default;

  /// Sums `block`, which nobody touches until `wait`, over the ranks of `replicas`.
  template <Scalar T>
  ReplicaSum(C& replicas, MatrixView<T> block)
  {
    if (replicas.size() > 1) request_ = replicas.async_all_reduce(block.elements());
  }

  void wait()
  {
    if (request_) request_->wait();
    request_.reset();
  }

 private:
  using Request = decltype(std::declval<C&>().async_barrier());
  std::optional<Request> request_;
};

/// Starts the sum of `block` along `A...`; without axes there is nothing to do.
template <class M, Scalar T, class... A>
[[nodiscard]] ReplicaSum<typename M::Communicator> sum_replicas(const M& mesh, Axes<A...>,
                                                                MatrixView<T> block)
{
  if constexpr (sizeof...(A) > 0)
    return {mesh.template along<A...>(), block};
  else
    return {};
}

}  // namespace cubist
