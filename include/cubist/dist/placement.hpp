// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Where the blocks of a matrix are: those of all ranks of a mesh, as a layout cuts them.

#include <algorithm>
#include <utility>
#include <vector>

#include "cubist/core/block.hpp"
#include "cubist/dist/holders.hpp"
#include "cubist/engine/engine.hpp"

namespace cubist::detail
{

/// The blocks of op(A) on the ranks of a mesh.
class Placement
{
 public:
  Placement(std::vector<Block> stored, bool transposed)
      : stored_{std::move(stored)}, transposed_{transposed}, holders_{detail::holders(
                                                                 ranks(), [this](int rank) {
                                                                   return (*this)[rank];
                                                                 })}
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
  /// The sizes of op(A) itself.
  [[nodiscard]] Shape shape() const { return op_shape(transposed_, stored_shape_); }
  [[nodiscard]] const Holders& holders() const { return holders_; }

 private:
  std::vector<Block> stored_;
  bool transposed_;
  Holders holders_;
  Shape stored_shape_;
};

/// Whether every rank's block of C is the product of its blocks of A and B, for C = A B.
[[nodiscard]] inline bool multiplies_blockwise(const Placement& a, const Placement& b,
                                               const Placement& c)
{
  const auto same = [](const Range& r, const Range& s) {
    return r.offset == s.offset && r.valid == s.valid;
  };
  const std::size_t inner = a.shape().cols;
  for (int rank = 0; rank < c.ranks(); ++rank)
    if (!same(a[rank].rows, c[rank].rows) || !same(b[rank].cols, c[rank].cols) ||
        a[rank].cols.valid < inner || b[rank].rows.valid < inner)
      return false;
  return true;
}

/// The blocks of a matrix of layout `L`, stored with this shape, on all ranks of a mesh.
template <class L, class M>
[[nodiscard]] Placement placement(const M& mesh, Shape stored, Op op)
{
  std::vector<Block> blocks;
  for (int rank = 0; rank < mesh.size(); ++rank)
    blocks.push_back(L::template block<typename M::Axes>(stored, mesh.extents(),
                                                         mesh.coordinates(rank), mesh.quantum()));
  return {std::move(blocks), op != Op::none};
}

}  // namespace cubist::detail
