// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The part of a sub-matrix that a rank holds, and checks of the arguments that describe it.

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include <cubist/core/block.hpp>
#include <cubist/core/error.hpp>
#include <cubist/core/scalar.hpp>
#include <cubist/engine/engine.hpp>
#include <cubist/engine/shapes.hpp>
#include <cubist/foreign/block_cyclic.hpp>
#include <cubist/foreign/copy_blocks.hpp>
#include <cubist/foreign/distribution.hpp>
#include <cubist/foreign/foreign_matrix.hpp>
#include <cubist/foreign/index_set.hpp>
#include <cubist/foreign/matrix_part.hpp>

namespace cubist::CUBIST_ABI::detail
{

/// A sub-matrix of a block-cyclic matrix.
template <class T>
struct PlacedMatrix
{
  BlockCyclicMatrix<T> whole;
  Shape size;

  [[nodiscard]] Shape shape() const { return size; }
  [[nodiscard]] PlacedMatrix submatrix(std::size_t i, std::size_t j, Shape shape) const
  {
    PlacedMatrix part{whole, shape};
    part.whole.place.i += i;
    part.whole.place.j += j;
    return part;
  }
  /// Converts to a reference that only reads the matrix.
  operator PlacedMatrix<const T>() const requires(!std::is_const_v<T>) { return {whole, size}; }
};

/// Returns the layout of a sub-matrix, as if it were a whole matrix.
[[nodiscard]] inline BlockCyclic layout_of(const SubMatrixPlace& x, Shape shape)
{
  BlockCyclic layout{x.layout};
  layout.shape = shape;
  const auto move = [](std::size_t at, std::size_t block, std::size_t& first, int& source,
                       int parts) {
    if (first == 0) first = block;
    if (at < first) return void(first -= at);
    const std::size_t blocks = 1 + (at - first) / block;
    if (source >= 0)
      source = static_cast<int>((static_cast<std::size_t>(source) + blocks) %
                                static_cast<std::size_t>(parts));
    first = block - (at - first) % block;
  };
  move(x.i, layout.block.rows, layout.first_block.rows, layout.row_source, layout.grid.rows);
  move(x.j, layout.block.cols, layout.first_block.cols, layout.col_source, layout.grid.cols);
  return layout;
}

/// The elements of a sub-matrix that a rank holds: consecutive rows and columns of its array.
struct LocalPart
{
  std::size_t row = 0;
  std::size_t col = 0;
  Shape shape;
};

/// Returns the rows and the columns of a sub-matrix that a process of the grid holds.
[[nodiscard]] inline std::pair<IndexSet, IndexSet> local_sets(const SubMatrixPlace& x, Shape shape,
                                                              int rank)
{
  const auto& grid = x.layout.grid;
  return {set_of(row_sets(x.layout), grid.row(rank)).window(x.i, shape.rows),
          set_of(col_sets(x.layout), grid.col(rank)).window(x.j, shape.cols)};
}

/// Returns the indices of a sub-matrix that a part of the grid copies: those that it holds, or its
/// share of them if every part holds all.
[[nodiscard]] inline IndexSet share_of(const std::vector<IndexSet>& sets, int part, int parts,
                                       std::size_t begin, std::size_t size)
{
  const IndexSet mine = set_of(sets, part).window(begin, size);
  if (sets.size() > 1 || parts == 1) return mine;
  const auto count = static_cast<std::size_t>(parts);
  const Range r = block_range(size, pad(size, count), count, static_cast<std::size_t>(part));
  return IndexSet::interval(r.offset, r.valid, mine.first_position() + r.offset);
}

[[nodiscard]] inline LocalPart local_part(const SubMatrixPlace& x, Shape shape, int rank)
{
  if (rank >= x.layout.grid.size()) return {};
  const auto [rows, cols] = local_sets(x, shape, rank);
  return {rows.first_position(), cols.first_position(), {rows.size(), cols.size()}};
}

/// Returns the rows and columns of the sub-matrix that a part of the local array holds, counted
/// from 0.
[[nodiscard]] inline std::pair<std::vector<std::size_t>, std::vector<std::size_t>>
indices_of(const SubMatrixPlace& x, Shape shape, const LocalPart& part, int rank)
{
  const auto some = [](const IndexSet& set, std::size_t first, std::size_t count) {
    const auto all = indices(set);
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first - set.first_position());
    return std::vector<std::size_t>(begin, begin + static_cast<std::ptrdiff_t>(count));
  };
  const auto [rows, cols] = local_sets(x, shape, rank);
  return {some(rows, part.row, part.shape.rows), some(cols, part.col, part.shape.cols)};
}

/// @param uses whether the elements are read or written
/// @throws ArgumentError, MeshError, ShapeError unless the matrix is right; on this rank alone for
/// what only this rank knows
template <class T>
void require_block_cyclic(const char* name, const BlockCyclicMatrix<T>& x, Shape shape, bool uses,
                          int rank, int ranks)
{
  const Distribution d{x.place, shape, name};
  require_ranks(d, ranks, name);
  require<ArgumentError>(
      x.place.layout.order == StorageOrder::column_major, "got ", name,
      " with row-major arrays, but ScaLAPACK's are column-major; pass the transposes");
  require_array(d, rank, 0, LocalArray<T>{x.data, x.ld}, name, uses);
}

/// Returns the elements of an array that belong to both parts.
[[nodiscard]] inline LocalPart common_part(const LocalPart& x, const LocalPart& y)
{
  const auto size = [](std::size_t i, std::size_t m, std::size_t j, std::size_t n) {
    const std::size_t begin = std::max(i, j);
    const std::size_t end = std::min(i + m, j + n);
    return begin < end ? end - begin : 0;
  };
  return {std::max(x.row, y.row),
          std::max(x.col, y.col),
          {size(x.row, x.shape.rows, y.row, y.shape.rows),
           size(x.col, x.shape.cols, y.col, y.shape.cols)}};
}

/// @throws ArgumentError, on this rank alone, if C would overwrite elements of A. If C and A share
/// a part of one array, `overlaps(part)` tells whether it would.
/// @param written the name of C
template <class T, class U, class F>
void require_apart(const char* name, const BlockCyclicMatrix<T>& a, Shape of_a, const char* written,
                   const BlockCyclicMatrix<U>& c, Shape of_c, int rank, F overlaps)
{
  if (a.data != c.data || a.ld != c.ld) return;
  const auto part = common_part(local_part(a.place, of_a, rank), local_part(c.place, of_c, rank));
  require<ArgumentError>(part.shape.size() == 0 || !overlaps(part), "got a ", written,
                         " that shares elements with ", name,
                         ", which would change while they are read; use another array, or "
                         "sub-matrices without an element in common");
}

/// Checks a product, which reads all of A.
template <class T>
void require_apart(const char* name, const BlockCyclicMatrix<const T>& a, Shape of_a,
                   const BlockCyclicMatrix<T>& c, Shape of_c, int rank)
{
  require_apart(name, a, of_a, "C", c, of_c, rank, [](const LocalPart&) { return true; });
}

/// Checks a product that accesses only one triangle of A, which has n rows, or of C. The other
/// triangle may share elements with the other matrix.
/// @param t the matrix of which a triangle is accessed, A or C  @param other the other one
template <class T, class U>
void require_apart_from_triangle(const char* name, Triangle triangle, const BlockCyclicMatrix<T>& t,
                                 std::size_t n, const char* written,
                                 const BlockCyclicMatrix<U>& other, Shape of_other, int rank)
{
  require_apart(name, t, {n, n}, written, other, of_other, rank, [&](const LocalPart& part) {
    const auto [rows, cols] = indices_of(t.place, {n, n}, part, rank);
    // Look at the corner that is farthest inside the triangle.
    return triangle == Triangle::lower ? rows.back() >= cols.front() : rows.front() <= cols.back();
  });
}

/// Checks a sum, which reads one element of A for each element of C. The two may be the same
/// element, except where ScaLAPACK gets that wrong: p?tradd scales C before it reads A. An element
/// that the sum does not read or does not write may be in both sub-matrices.
/// @param which the elements of C that are written
template <class T>
void require_apart_in_sum(Op op, MatrixPart which, const BlockCyclicMatrix<const T>& a, T beta,
                          const BlockCyclicMatrix<T>& c, Shape of_c, int rank)
{
  const bool may_be_same = which == MatrixPart::all || beta == T{1};
  const auto overlaps = [&](const LocalPart& part) {
    const auto [a_rows, a_cols] = indices_of(a.place, op_shape(op, of_c), part, rank);
    const auto [c_rows, c_cols] = indices_of(c.place, of_c, part, rank);
    const auto is_in = [which](std::size_t i, std::size_t j) {
      const ColumnRange cols = columns_in(which, i, j, 1);
      return cols.begin < cols.end;
    };
    for (std::size_t col = 0; col < part.shape.cols; ++col)
      for (std::size_t row = 0; row < part.shape.rows; ++row)
      {
        // (i, j) is the element of C that the sum writes here, (to_i, to_j) the one for which it
        // reads A here.
        const std::size_t i = c_rows[row];
        const std::size_t j = c_cols[col];
        const std::size_t to_i = op == Op::none ? a_rows[row] : a_cols[col];
        const std::size_t to_j = op == Op::none ? a_cols[col] : a_rows[row];
        const bool is_same = i == to_i && j == to_j;
        if (!(is_same && may_be_same) && is_in(i, j) && is_in(to_i, to_j)) return true;
      }
    return false;
  };
  require_apart("A", a, op_shape(op, of_c), "C", c, of_c, rank, overlaps);
}

/// Computes C = beta C.
template <Scalar T>
void scale_local(T beta, const LocalPart& part, LocalArray<T> c)
{
  const Combine<T> combine{T{}, false, beta};
  for (std::size_t j = 0; j < part.shape.cols; ++j)
    combine.scale(c.data + part.row + (part.col + j) * c.ld, part.shape.rows);
}

}  // namespace cubist::CUBIST_ABI::detail
