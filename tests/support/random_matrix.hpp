// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Block-cyclic matrices of MPI's processes in random layouts, for tests of products.

#include <cstddef>
#include <vector>

#include <boost/mpi/communicator.hpp>
#include <mpi.h>

#include "cubist/foreign/block_cyclic.hpp"

#include "foreign_matrices.hpp"

namespace cubist::test
{

/// A sub-matrix in a random block-cyclic layout, found index by index.
template <class T>
class RandomMatrix
{
 public:
  RandomMatrix(Shape shape, Dice& dice)
      : shape_{shape}
  {
    const boost::mpi::communicator world;
    const int rows = 1 + dice.integer(world.size());
    const ProcessGrid grid{rows, 1 + dice.integer(world.size() / rows),
                           dice(2) == 0 ? StorageOrder::row_major : StorageOrder::column_major};
    place_.i = dice(9);
    place_.j = dice(9);
    place_.layout = {.shape = {place_.i + shape.rows + dice(5), place_.j + shape.cols + dice(5)},
                     .block = {1 + dice(40), 1 + dice(40)},
                     .grid = grid,
                     .row_source = dice(6) == 0 ? -1 : dice.integer(grid.rows),
                     .col_source = dice(6) == 0 ? -1 : dice.integer(grid.cols)};
    if (dice(2) == 0) place_.layout.first_block = {1 + dice(50), 1 + dice(50)};
    const BlockCyclic& l = place_.layout;
    if (world.rank() < grid.size())
    {
      rows_ = cyclic_indices(l.shape.rows, l.first_block.rows, l.block.rows, l.row_source,
                             grid.row(world.rank()), grid.rows);
      cols_ = cyclic_indices(l.shape.cols, l.first_block.cols, l.block.cols, l.col_source,
                             grid.col(world.rank()), grid.cols);
    }
    array_.assign((rows_.size() + 2) * cols_.size() + 1, T{-99});
  }

  [[nodiscard]] const SubMatrixPlace& place() const { return place_; }
  [[nodiscard]] BlockCyclicMatrix<T> matrix() { return {place_, array_.data(), rows_.size() + 2}; }

  /// Sets the elements of the sub-matrix to f(i, j).
  template <class F>
  void fill(F f)
  {
    for_each([&](std::size_t i, std::size_t j, bool is_inside, T& x) {
      if (is_inside) x = f(i, j);
    });
  }
  /// Whether this rank's elements of the sub-matrix are f(i, j), and the others are unchanged.
  template <class F>
  [[nodiscard]] bool is(F f)
  {
    bool same = true;
    for_each([&](std::size_t i, std::size_t j, bool is_inside, const T& x) {
      same = same && x == (is_inside ? f(i, j) : T{-99});
    });
    return same;
  }

 private:
  template <class F>
  void for_each(F f)
  {
    for (std::size_t col = 0; col < cols_.size(); ++col)
      for (std::size_t row = 0; row < rows_.size(); ++row)
      {
        const std::size_t i = rows_[row] - place_.i;
        const std::size_t j = cols_[col] - place_.j;
        f(i, j, i < shape_.rows && j < shape_.cols, array_[col * (rows_.size() + 2) + row]);
      }
  }

  Shape shape_;
  SubMatrixPlace place_;
  std::vector<std::size_t> rows_;
  std::vector<std::size_t> cols_;
  std::vector<T> array_;
};

/// Whether something holds on all processes, all of which must ask.
[[nodiscard]] inline bool everywhere(bool holds)
{
  int all = holds ? 1 : 0;
  MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  return all == 1;
}

}  // namespace cubist::test
