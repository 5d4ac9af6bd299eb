// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Descriptors of ScaLAPACK's matrices, of 9 or 11 integers, and the checks of arguments that the
// PBLAS make before they compute.
//
//   entry of 9    DTYPE = 1, CTXT, M, N, MB, NB, RSRC, CSRC, LLD
//   entry of 11   DTYPE = 2, CTXT, M, N, IMB, INB, MB, NB, RSRC, CSRC, LLD
//
// A wrong argument number i is reported as -i, a wrong entry j of a descriptor, counted in the
// layout of 11, as -(100 i + j). If several are wrong, the lowest position is reported.
//
// Source: the comments of the public PBLAS; what its routines return was measured.

#include <algorithm>
#include <array>
#include <climits>
#include <cstddef>

#include "cubist/foreign/block_cyclic.hpp"
#include "cubist/pblas/cyclic_dimension.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// A descriptor of 11 entries, from one of either kind.
struct ArrayDescriptor
{
  int type = 0;
  int context = -1;
  int rows = 0;
  int cols = 0;
  int first_row_block = 1;
  int first_col_block = 1;
  int row_block = 1;
  int col_block = 1;
  int row_source = 0;
  int col_source = 0;
  int ld = 1;

  static constexpr int with_first_blocks = 2;

  [[nodiscard]] static ArrayDescriptor read(const int* d)
  {
    switch (d[0])
    {
    case 1:
      return {with_first_blocks, d[1], d[2], d[3], d[4], d[5], d[4], d[5], d[6], d[7], d[8]};
    case with_first_blocks:
      return {d[0], d[1], d[2], d[3], d[4], d[5], d[6], d[7], d[8], d[9], d[10]};
    default:
      return {d[0], d[1]};
    }
  }

  /// @pre the descriptor passed the checks
  [[nodiscard]] BlockCyclic layout(const ProcessGrid& grid) const
  {
    const auto size = [](int n) { return static_cast<std::size_t>(n); };
    return {.shape = {size(rows), size(cols)},
            .block = {size(row_block), size(col_block)},
            .grid = grid,
            .row_source = row_source,
            .col_source = col_source,
            .first_block = {size(first_row_block), size(first_col_block)}};
  }
};

/// The process grid of a BLACS context, and this process's place; no rows for a context that does
/// not exist here.
struct ContextGrid
{
  int context = -1;
  int rows = -1;
  int cols = -1;
  int row = -1;
  int col = -1;
};

/// A size, with its number in the argument list.
struct SizeArgument
{
  int value;
  int position;
};

/// The wrong argument of the lowest position, of all that have been checked.
class ArgumentCheck
{
 public:
  explicit ArgumentCheck(const ContextGrid& grid, int descriptor_of_context) : grid_{grid}
  {
    if (grid.rows == -1) report(entry(descriptor_of_context, 2));
  }

  /// The code of the error, or 0.
  [[nodiscard]] int info() const
  {
    if (lowest_ == none) return 0;
    return lowest_ % per_argument == 0 ? -(lowest_ / per_argument) : -lowest_;
  }

  /// Checks an argument by itself.
  void check(bool is_right, int position)
  {
    if (!is_right) report(position * per_argument);
  }

  /// Checks the sub-matrix of m rows and n columns from (i, j), which count from 0. The descriptor
  /// is the argument `position`, which follows i and j.
  void check(SizeArgument m, SizeArgument n, int i, int j, const ArrayDescriptor& d, int position)
  {
    if (grid_.rows == -1) return;
    const int at_i = (position - 2) * per_argument;
    const int at_j = (position - 1) * per_argument;
    const auto refuse = [&](bool is_wrong, int where) {
      if (is_wrong) report(where);
    };
    refuse(m.value < 0, m.position * per_argument);
    refuse(n.value < 0, n.position * per_argument);
    refuse(i < 0, at_i);
    refuse(j < 0, at_j);
    if (d.type != ArrayDescriptor::with_first_blocks) return report(entry(position, 1));
    if (d.context != grid_.context) return report(entry(position, 2));
    refuse(d.first_row_block < 1, entry(position, 5));
    refuse(d.first_col_block < 1, entry(position, 6));
    refuse(d.row_block < 1, entry(position, 7));
    refuse(d.col_block < 1, entry(position, 8));
    refuse(d.row_source < -1 || d.row_source >= grid_.rows, entry(position, 9));
    refuse(d.col_source < -1 || d.col_source >= grid_.cols, entry(position, 10));
    const bool is_empty = m.value == 0 || n.value == 0;
    refuse(d.rows < (is_empty ? 0 : 1), entry(position, 3));
    refuse(d.cols < (is_empty ? 0 : 1), entry(position, 4));
    if (is_empty) return refuse(d.ld < 1, entry(position, 11));
    if (d.rows >= 1 && d.cols >= 1)
    {
      refuse(static_cast<long>(i) + m.value > d.rows, at_i);
      refuse(static_cast<long>(j) + n.value > d.cols, at_j);
    }
    if (lowest_ == none) refuse(!leading_dimension_fits(d), entry(position, 11));
  }

 private:
  static constexpr int per_argument = 100;
  static constexpr int none = INT_MAX;

  [[nodiscard]] static constexpr int entry(int argument, int number)
  {
    return argument * per_argument + number;
  }
  void report(int where) { lowest_ = std::min(lowest_, where); }

  /// Whether the leading dimension fits, which may be wrong on this process alone.
  /// @pre the other entries are right
  [[nodiscard]] bool leading_dimension_fits(const ArrayDescriptor& d) const
  {
    const auto layout = d.layout({grid_.rows, grid_.cols});
    const auto rows = CyclicDimension::rows(layout).count(grid_.row, layout.shape.rows);
    const auto cols = CyclicDimension::cols(layout).count(grid_.col, layout.shape.cols);
    return d.ld >= 1 && (cols == 0 || static_cast<std::size_t>(d.ld) >= rows);
  }

  ContextGrid grid_;
  int lowest_ = none;
};

}  // namespace cubist::CUBIST_ABI::detail
