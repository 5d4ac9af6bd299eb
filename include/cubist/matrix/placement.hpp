// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The placement of a matrix: which rectangle of the global matrix each rank of a mesh holds, and
// which ranks hold replicas. Replicas are equal rectangles; all others are disjoint.

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "cubist/core/block.hpp"
#include "cubist/engine/engine.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// A rectangle of a global matrix, whose first element is (i, j).
struct Rectangle
{
  std::size_t i = 0;
  std::size_t j = 0;
  Shape shape;

  [[nodiscard]] bool empty() const { return shape.size() == 0; }
};

/// Returns the indices that both ranges contain.
[[nodiscard]] inline Range intersection(const Range& a, const Range& b)
{
  const std::size_t begin = std::max(a.offset, b.offset);
  const std::size_t end = std::min(a.offset + a.valid, b.offset + b.valid);
  const std::size_t size = end > begin ? end - begin : 0;
  return {begin, size, size};
}

/// Returns the elements that both blocks hold.
[[nodiscard]] inline Rectangle intersection(const Block& a, const Block& b)
{
  const Range rows = intersection(a.rows, b.rows);
  const Range cols = intersection(a.cols, b.cols);
  return {rows.offset, cols.offset, {rows.size, cols.size}};
}

/// The ranks that hold each block that is not empty; the key is its first element (i, j).
using ReplicaMap = std::map<std::pair<std::size_t, std::size_t>, std::vector<int>>;

/// @param block_of f(rank) returns the rank's block
template <class BlockOf>
[[nodiscard]] ReplicaMap replica_map(int ranks, BlockOf block_of)
{
  ReplicaMap all;
  for (int r = 0; r < ranks; ++r)
    if (const Block b = block_of(r); b.valid().size() > 0)
      all[{b.rows.offset, b.cols.offset}].push_back(r);
  return all;
}

/// The blocks of op(A) on all ranks of a mesh.
class Placement
{
 public:
  /// @param stored each rank's block of A
  Placement(std::vector<Block> stored, bool transposed)
      : stored_{std::move(stored)},
        transposed_{transposed},
        replica_map_{detail::replica_map(ranks(), [this](int rank) { return (*this)[rank]; })}
  {
    for (const Block& b : stored_)
      stored_shape_ = {std::max(stored_shape_.rows, b.rows.offset + b.rows.valid),
                       std::max(stored_shape_.cols, b.cols.offset + b.cols.valid)};
  }

  [[nodiscard]] int ranks() const { return static_cast<int>(stored_.size()); }
  [[nodiscard]] bool transposed() const { return transposed_; }
  [[nodiscard]] Placement t() const { return {stored_, !transposed_}; }
  [[nodiscard]] Block operator[](int rank) const
  {
    const Block& b = stored_[static_cast<std::size_t>(rank)];
    return transposed_ ? Block{b.cols, b.rows} : b;
  }
  /// The shape of op(A).
  [[nodiscard]] Shape shape() const { return op_shape(transposed_, stored_shape_); }
  [[nodiscard]] const ReplicaMap& replica_map() const { return replica_map_; }

 private:
  std::vector<Block> stored_;
  bool transposed_;
  ReplicaMap replica_map_;
  Shape stored_shape_;
};

/// Whether each rank's block of C = A B is the product of its own blocks of A and B.
/// @param inner the number of columns of A
/// @param a, b, c functions that return the block of a rank
template <class A, class B, class C>
[[nodiscard]] bool is_blockwise_product(int ranks, std::size_t inner, A a, B b, C c)
{
  const auto same = [](const Range& r, const Range& s) {
    return r.offset == s.offset && r.valid == s.valid;
  };
  for (int rank = 0; rank < ranks; ++rank)
  {
    const Block x = a(rank);
    const Block w = b(rank);
    const Block y = c(rank);
    if (!same(x.rows, y.rows) || !same(w.cols, y.cols) || x.cols.valid < inner ||
        w.rows.valid < inner)
      return false;
  }
  return true;
}

/// Returns the blocks of op(A) on all ranks of a mesh, for A of layout `L` and shape `stored`.
template <class L, class A>
[[nodiscard]] Placement placement(const typename A::Array& extents, Quanta quanta, Shape stored,
                                  Op op)
{
  std::vector<Block> blocks;
  for (int rank = 0; rank < A::ranks(extents); ++rank)
    blocks.push_back(L::template block<A>(stored, extents, A::coordinates(rank, extents), quanta));
  return {std::move(blocks), op != Op::none};
}

/// The block of op(A) on each rank of a mesh, for A of layout `L` and shape `stored`.
template <class L, class M>
struct OperandBlocks
{
  const M& mesh;
  Shape stored;
  Quanta quanta;
  Op op = Op::none;

  [[nodiscard]] Block operator()(int rank) const
  {
    const Block b =
        L::template block<typename M::Axes>(stored, mesh.extents(), mesh.coordinates(rank), quanta);
    return op == Op::none ? b : Block{b.cols, b.rows};
  }
  [[nodiscard]] Placement placement() const
  {
    return detail::placement<L, typename M::Axes>(mesh.extents(), quanta, stored, op);
  }
};

}  // namespace cubist::CUBIST_ABI::detail
