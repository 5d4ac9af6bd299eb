// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Shares out the rows of a replicated matrix among its replicas. Where replicas can access each
// other's memory, each computes some rows of a result that is in shared memory. Otherwise, and for
// small matrices, each computes all rows.
//
//   ReplicaSplit shared{x};               // x (M, d) as S::Input
//   Matrix& y = shared.fit(kept.y, x);  // in shared memory, or in this rank's own
//   shared.begin();                     // no rank reads an earlier y any more
//   ... shared.mine(y.valid()) from shared.mine(x.valid()) ...
//   shared.complete();                  // all ranks have computed their rows
//
// Each element is computed as on one rank, so results are bit-identical.
//
// Elements that one rank sends: none; memory is read, not sent. Each of `begin` and `complete` is a
// barrier of the replicas.

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>

#include "cubist/comm/window.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/matrix/dist_matrix.hpp"
#include "cubist/matrix/replica_memory.hpp"

namespace cubist::CUBIST_ABI
{

/// Tells which rows of a matrix (T, L, M) this rank computes.
template <Scalar T, class L, class M>
class ReplicaSplit
{
  using C = typename M::Communicator;
  using E = typename M::Engine;
  using Matrix = DistMatrix<T, L, M>;
  static constexpr bool is_possible = ExposesMemory<C> && in_host_memory<E> && has_elements<E>;

 public:
  /// The smallest block, in elements, whose work is shared. For smaller ones, barriers would take a
  /// large part of the time saved: eight threads on two cores need 50 us for one.
  static constexpr std::size_t least_elements = std::size_t{1} << 16;

  /// @param x a matrix whose rows are cut like the result's
  /// @param wanted whether to share work, if that is possible; the same on all ranks
  explicit ReplicaSplit(const DistMatrix<T, L, M>& x, bool wanted = true)
      : all_{x.valid().rows()}
  {
    if constexpr (is_possible)
      if (wanted && x.mesh().active() && x.valid().size() >= least_elements)
        if (C* ranks = x.view().replica_ranks(); ranks != nullptr && can_expose(*ranks))
          ranks_ = ranks;
  }

  /// Returns a matrix in a Kept. The first call makes it, and so does a call with another shape or
  /// padding. Collective. If replicas do not share the matrix's memory, they do not share the work.
  Matrix& fit(std::optional<Matrix>& kept, const Matrix& like)
  {
    if (!kept || kept->shape() != like.shape() || kept->quanta() != like.quanta())
    {
      kept.reset();
      kept.emplace(like.mesh(), like.shape(), like.quanta(), memory(like.padded().size()));
    }
    if (!kept->has_common_memory()) ranks_ = nullptr;
    return *kept;
  }
  /// Allocates `size` elements that the replicas share; returns null if work is not shared.
  /// Collective.
  [[nodiscard]] std::shared_ptr<T> memory([[maybe_unused]] std::size_t size) const
  {
    if constexpr (is_possible)
      if (ranks_ != nullptr) return memory_of_ranks<T, E>(*ranks_, size);
    return nullptr;
  }

  /// Whether other replicas compute the other rows.
  [[nodiscard]] bool is_shared() const { return ranks_ != nullptr; }
  /// Waits until no replica reads the shared memory any more, so that this rank may write to it.
  void begin() const { wait(); }
  /// Waits until all replicas have written their part.
  void complete() const { wait(); }

  /// The rows of a block, padded or not, that this rank computes.
  template <class V>
  [[nodiscard]] MatrixView<V> mine(MatrixView<V> block) const
  {
    const std::size_t begin = begin_of_rows(0);
    return block.block(begin, 0, {begin_of_rows(1) - begin, block.cols()});
  }
  /// The columns that this rank sums over all rows. Only as many ranks as there are cores get
  /// columns, because a sum of few columns is bound by memory.
  template <class V>
  [[nodiscard]] MatrixView<V> my_columns(MatrixView<V> block) const
  {
    const std::size_t begin = begin_of_columns(block.cols(), 0);
    return block.block(0, begin, {block.rows(), begin_of_columns(block.cols(), 1) - begin});
  }

 private:
  void wait() const
  {
    if (ranks_ != nullptr) ranks_->barrier();
  }
  /// The first row of the rank `after` this one, or the end.
  [[nodiscard]] std::size_t begin_of_rows(std::size_t after) const
  {
    if (ranks_ == nullptr) return after * all_;
    return all_ * (number(ranks_->rank()) + after) / number(ranks_->size());
  }
  /// The first column of the rank `after` this one, or the end.
  [[nodiscard]] std::size_t begin_of_columns(std::size_t n, std::size_t after) const
  {
    if constexpr (is_possible)
      if (ranks_ != nullptr)
      {
        const std::size_t ranks = number(ranks_->size());
        const std::size_t parts =
            std::min(ranks, std::max<std::size_t>(1, number(ranks_->cores())));
        // If several ranks have the same part number, the first of them sums that part.
        const std::size_t part = ((number(ranks_->rank()) + after) * parts + ranks - 1) / ranks;
        return n * part / parts;
      }
    return after * n;
  }
  [[nodiscard]] static std::size_t number(int n) { return static_cast<std::size_t>(n); }

  std::size_t all_;
  C* ranks_ = nullptr;
};

}  // namespace cubist::CUBIST_ABI
