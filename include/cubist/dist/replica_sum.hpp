// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The asynchronous sum of a block over its replicas along some axes of the mesh. It forms the
// gradient of a replicated parameter.
//
// Elements sent per rank: 2 (P-1)/P of the block, for P ranks along the axes.

#include <optional>
#include <utility>

#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/mesh/axes.hpp"
#include "cubist/mesh/mesh.hpp"

namespace cubist
{

/// A pending all_reduce, or none.
/// @tparam C the communicator
template <class C>
class ReplicaSum
{
 public:
  ReplicaSum() = default;

  /// Starts the sum of `block` over the ranks of `replicas`.
  /// @pre the block is not accessed before `wait` returns
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

/// Starts the sum of `block` along `A...`; without axes it does nothing.
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
