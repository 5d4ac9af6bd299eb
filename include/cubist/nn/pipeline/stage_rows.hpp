// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Micro-batches of a matrix that all stages of a pipeline hold: consecutive rows, cut over the
// ranks of a stage like the whole matrix.
//
//   X (M, K), X_i (M_i, K): in the same layout
//
// Elements that one rank sends: the rows that other ranks of the stage need, times the columns of a
// rank; none if the micro-batch contains all rows.

#include <cstddef>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "cubist/core/scalar.hpp"
#include "cubist/matrix/dist_matrix.hpp"
#include "cubist/mesh/stages.hpp"
#include "cubist/nn/embedding/row_lookup.hpp"

namespace cubist::CUBIST_ABI::detail
{

template <RealScalar T, class L, HasStages M>
class StageRows
{
 public:
  using Whole = DistMatrix<T, L, M>;
  using Rows = DistMatrix<T, L, StageMesh<M>>;

  /// Copies rows of `all`, starting at row `first`, to `out`. Every rank of the stage calls it.
  /// @pre the columns of both are equal
  void copy(const Whole& all, std::size_t first, Rows& out)
  {
    if (out.rows() == all.rows()) return out.mesh().engine().copy(all.padded(), out.padded());
    rows_.resize(out.rows());
    std::iota(rows_.begin(), rows_.end(), static_cast<int>(first));
    exchange_of(all, out).look_up(rows_, all.valid(), out.valid());
  }

 private:
  struct Planned
  {
    Shape all;
    Quanta quanta;
    Shape part;
    RowLookup<T, StageMesh<M>> exchange;
  };

  /// Returns the exchange of rows, which is planned once for each shape.
  RowLookup<T, StageMesh<M>>& exchange_of(const Whole& all, const Rows& out)
  {
    for (const auto& p : planned_)
      if (p->all == all.shape() && p->quanta == all.quanta() && p->part == out.shape())
        return p->exchange;
    const Rows blocks{out.mesh(), all.shape(), all.quanta(), WithoutElements{}};
    planned_.push_back(std::make_unique<Planned>(
        Planned{all.shape(), all.quanta(), out.shape(), RowLookup<T, StageMesh<M>>{out.mesh()}}));
    planned_.back()->exchange.plan(blocks.view(), std::as_const(out).view());
    return planned_.back()->exchange;
  }

  std::vector<std::unique_ptr<Planned>> planned_;
  std::vector<int> rows_;
};

}  // namespace cubist::CUBIST_ABI::detail
