// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Work on the rows of a replicated matrix, shared out among its replicas: where they can access
// each other's memory, each computes some rows, of a result that all have in common. Otherwise, and
// for small matrices, each computes all rows.
//
//   ReplicaSplit shared{x};               // x (M, d) as S::Input
//   Matrix& y = shared.fit(kept.y, x);  // with memory in common, or of its own
//   shared.begin();                     // no rank reads an earlier y any more
//   ... shared.mine(y.valid()) from shared.mine(x.valid()) ...
//   shared.complete();                  // all ranks have computed their rows
//
// Each element is computed as on one rank, so results have the same bits.
//
// Words: none; memory is read, not sent. Each of `begin` and `complete` is a barrier of the
// replicas.

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

/// The rows of a matrix (T, L, M) that this rank computes; see above.
template <Scalar T, class L, class M>
class ReplicaSplit
{
  using C = typename M::Communicator;
  using E = typename M::Engine;
  using Matrix = DistMatrix<T, L, M>;
  static constexpr bool is_possible = ExposesMemory<C> && in_host_memory<E> && has_elements<E>;

 public:
  /// The elements of a block from which on work is shared. In smaller ones barriers, of which eight
  /// threads on two cores do one in 50 us, would take a large part of what is saved.
  static constexpr std::size_t least_elements = std::size_t{1} << 16;

  /// @param x with the rows, cut in the same way
  /// @param wanted whether to share work, if that is possible; the same on all ranks
  explicit ReplicaSplit(const DistMatrix<T, L, M>& x, bool wanted = true)
      : all_{x.valid().rows()}
  {
    if constexpr (is_possible)
      if (wanted && x.mesh().active() && x.valid().size() >= least_elements)
        if (C* ranks = x.view().replica_ranks(); ranks != nullptr && can_expose(*ranks))
          ranks_ = ranks;
  }

  /// A matrix that a Kept has, made when it is first needed, and again when its shape or padding
  /// changes. Collective. If its memory is not in common, work is not shared.
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
  /// As many elements as `size`, which the replicas have in common; null if work is not shared.
  /// Collective.
  [[nodiscard]] std::shared_ptr<T> memory([[maybe_unused]] std::size_t size) const
  {
    if constexpr (is_possible)
      if (ranks_ != nullptr) return memory_of_ranks<T, E>(*ranks_, size);
    return nullptr;
  }

  /// Whether other replicas compute the other rows.
  [[nodiscard]] bool is_shared() const { return ranks_ != nullptr; }
  /// Before this rank writes to what the replicas have in common, which others may still read.
  void begin() const { wait(); }
  /// Until all replicas have written their part.
  void complete() const { wait(); }

  /// The rows that this rank computes, of a block or of its padding.
  template <class V>
  [[nodiscard]] MatrixView<V> mine(MatrixView<V> block) const
  {
    const std::size_t begin = begin_of_rows(0);
    return block.block(begin, 0, {begin_of_rows(1) - begin, block.cols()});
  }
  /// The columns that this rank sums up, over all rows. Only as many ranks as there are cores have
  /// some, because a sum of few columns waits for memory.
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
        // If several ranks have one part number, the first of them sums up that part.
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
