// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The part of a sub-matrix that a rank has, and the checks of the arguments that describe it.

#include <cstddef>

#include "cubist/comm/mpi/communicator.hpp"
#include "cubist/core/block.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/foreign/copy_blocks.hpp"
#include "cubist/foreign/distribution.hpp"
#include "cubist/foreign/foreign_matrix.hpp"
#include "cubist/pblas/block_cyclic_matrix.hpp"
#include "cubist/pblas/cyclic_dimension.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// The elements of a sub-matrix of C that a rank has: consecutive rows and columns of its array.
struct LocalPart
{
  std::size_t row = 0;
  std::size_t col = 0;
  Shape shape;
};

[[nodiscard]] inline LocalPart local_part(const SubMatrixPlace& x, Shape shape, int rank)
{
  const auto& grid = x.layout.grid;
  if (rank >= grid.size()) return {};
  const auto rows = CyclicDimension::rows(x.layout);
  const auto cols = CyclicDimension::cols(x.layout);
  const int p = grid.row(rank);
  const int q = grid.col(rank);
  const std::size_t row = rows.count(p, x.i);
  const std::size_t col = cols.count(q, x.j);
  return {row, col, {rows.count(p, x.i + shape.rows) - row, cols.count(q, x.j + shape.cols) - col}};
}

/// @param uses whether the elements are read or written
/// @throws ArgumentError, ShapeError unless the matrix is a right one, on this rank alone for what
/// it alone knows
template <class T>
void require_block_cyclic(const char* name, const BlockCyclicMatrix<T>& x, Shape shape, bool uses,
                          int rank, int ranks)
{
  const auto& [place, data, ld] = x;
  const auto& at = place.layout;
  require<ArgumentError>(at.grid.rows >= 1 && at.grid.cols >= 1 && at.grid.size() <= ranks,
                         "got a grid of ", at.grid.rows, " x ", at.grid.cols, " processes for ",
                         name, ", but the communicator has ", ranks,
                         ", so some would be missing; use a smaller grid");
  require<ArgumentError>(at.block.rows >= 1 && at.block.cols >= 1, "got blocks of ", at.block,
                         " for ", name, ", which hold nothing; use positive sizes");
  require<ArgumentError>(at.row_source >= -1 && at.row_source < at.grid.rows &&
                             at.col_source >= -1 && at.col_source < at.grid.cols,
                         "got ", name, " with its first block on process (", at.row_source, ", ",
                         at.col_source, ") of a grid of ", at.grid.rows, " x ", at.grid.cols,
                         ", which is outside of it; use a process of the grid, or -1 for all");
  require<ArgumentError>(at.order == StorageOrder::column_major, "got ", name,
                         " with row-major arrays, which are not ScaLAPACK's; pass the transposes");
  require<ShapeError>(place.i <= at.shape.rows && shape.rows <= at.shape.rows - place.i &&
                          place.j <= at.shape.cols && shape.cols <= at.shape.cols - place.j,
                      "got the sub-matrix of ", name, " of ", shape, " from (", place.i, ", ",
                      place.j, ") on, which is outside of its ", at.shape,
                      "; use indices and sizes that lie inside");
  const auto whole = local_part({at}, at.shape, rank).shape;
  if (whole.size() == 0) return;
  require<ShapeError>(ld >= whole.rows, "got a leading dimension of ", ld, " for ", name,
                      ", of which this rank has ", whole.rows,
                      " rows, so columns would overlap; use at least that");
  const auto part = local_part(place, shape, rank).shape;
  require<ShapeError>(data != nullptr || !uses || part.size() == 0, "got no array for ", name,
                      ", of whose sub-matrix this rank has ", part,
                      " elements; pass its local array");
}

/// @throws ArgumentError, on this rank alone, if C has elements of A in the same array
template <class T>
void require_apart(const char* name, const BlockCyclicMatrix<const T>& a, Shape of_a,
                   const BlockCyclicMatrix<T>& c, Shape of_c, int rank)
{
  if (a.data != c.data || a.ld != c.ld) return;
  const auto x = local_part(a.place, of_a, rank);
  const auto y = local_part(c.place, of_c, rank);
  if (x.shape.size() == 0 || y.shape.size() == 0) return;
  const auto meet = [](std::size_t i, std::size_t m, std::size_t j, std::size_t n) {
    return i < j + n && j < i + m;
  };
  require<ArgumentError>(!meet(x.row, x.shape.rows, y.row, y.shape.rows) ||
                             !meet(x.col, x.shape.cols, y.col, y.shape.cols),
                         "got a C that has elements of ", name,
                         ", which would change while they are read; use another array, or "
                         "sub-matrices without an element in common");
}

/// C = beta C
template <Scalar T>
void scale_local(T beta, const LocalPart& part, LocalColumns<T> c)
{
  const Combine<T> combine{T{}, false, beta};
  for (std::size_t j = 0; j < part.shape.cols; ++j)
    combine.scale(c.data + part.row + (part.col + j) * c.ld, part.shape.rows);
}

/// A sub-matrix as the conversions take it.
template <class T>
[[nodiscard]] ForeignMatrix<T> foreign_matrix(const MpiCommunicator& world,
                                              const SubMatrixPlace& place, Shape shape,
                                              LocalColumns<T> local)
{
  const bool holds = world.rank() < place.layout.grid.size();
  return ForeignMatrix<T>{world, Distribution{place.layout}, holds ? local.data : nullptr,
                          holds ? local.ld : 1}
      .submatrix(place.i, place.j, shape);
}

}  // namespace cubist::CUBIST_ABI::detail
