// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// An asynchronous sum over the replicas of a block, for its owner to wait for: an all_reduce of its
// own, or a place in a bucket (gradient_buckets.hpp).

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

/// Sums that travel together.
class PackedSums
{
 public:
  virtual ~PackedSums() = default;
  /// Completes the sum that has this number.
  virtual void wait(std::size_t number) = 0;
};

}  // namespace detail

/// A pending sum, or none.
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

  /// A sum that has been packed.
  ReplicaSum(std::shared_ptr<detail::PackedSums> packed, std::size_t number)
      : packed_{std::move(packed)}, number_{number}
  {
  }

  void wait()
  {
    if (request_) request_->wait();
    request_.reset();
    if (packed_) packed_->wait(number_);
    packed_.reset();
  }

 private:
  using Request = decltype(std::declval<C&>().async_barrier());
  std::optional<Request> request_;
  std::shared_ptr<detail::PackedSums> packed_;
  std::size_t number_ = 0;
};

}  // namespace cubist::CUBIST_ABI
