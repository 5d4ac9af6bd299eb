// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Descriptors of ScaLAPACK's matrices, which have 9 or 11 integers, and the checks of arguments
// that the PBLAS make before they compute.
//
//   entry of 9    DTYPE = 1, CTXT, M, N, MB, NB, RSRC, CSRC, LLD
//   entry of 11   DTYPE = 2, CTXT, M, N, IMB, INB, MB, NB, RSRC, CSRC, LLD
//
// If argument i is wrong, -i is reported. If entry j of descriptor i is wrong, counted as in a
// descriptor of 11 entries, -(100 i + j) is reported. If several are wrong, the lowest position is
// reported, and each gets a line of text in ScaLAPACK's words.
//
// Source: the comments of the public PBLAS, and what its routines were observed to return.

#include <algorithm>
#include <array>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubist/core/error.hpp>
#include <cubist/foreign/block_cyclic.hpp>

namespace cubist::CUBIST_ABI::detail
{

/// The type of integer that the program's ScaLAPACK takes.
#ifdef CUBIST_PBLAS_ILP64
using FortranInt = std::int64_t;
#else
using FortranInt = int;
#endif

/// A descriptor of 11 entries, read from one of either kind.
struct ArrayDescriptor
{
  FortranInt type = 0;
  FortranInt context = -1;
  FortranInt rows = 0;
  FortranInt cols = 0;
  FortranInt first_row_block = 1;
  FortranInt first_col_block = 1;
  FortranInt row_block = 1;
  FortranInt col_block = 1;
  FortranInt row_source = 0;
  FortranInt col_source = 0;
  FortranInt ld = 1;

  static constexpr FortranInt with_first_blocks = 2;

  /// Reads a descriptor of 9 entries, whatever its type says, because p?gemr2d does not read the
  /// type.
  [[nodiscard]] static ArrayDescriptor read_nine(const FortranInt* d)
  {
    return {with_first_blocks, d[1], d[2], d[3], d[4], d[5], d[4], d[5], d[6], d[7], d[8]};
  }
  [[nodiscard]] static ArrayDescriptor read(const FortranInt* d)
  {
    switch (d[0])
    {
    case 1:
      return read_nine(d);
    case with_first_blocks:
      return {d[0], d[1], d[2], d[3], d[4], d[5], d[6], d[7], d[8], d[9], d[10]};
    default:
      return {d[0], d[1]};
    }
  }

  /// @pre the descriptor has passed the checks
  [[nodiscard]] BlockCyclic layout(const ProcessGrid& grid) const
  {
    const auto size = [](FortranInt n) { return static_cast<std::size_t>(n); };
    return {.shape = {size(rows), size(cols)},
            .block = {size(row_block), size(col_block)},
            .grid = grid,
            .row_source = static_cast<int>(row_source),
            .col_source = static_cast<int>(col_source),
            .first_block = {size(first_row_block), size(first_col_block)}};
  }
};

/// The process grid of a BLACS context, and the place of this process in it. It has -1 rows if the
/// context does not exist on this process.
struct ContextGrid
{
  FortranInt context = -1;
  int rows = -1;
  int cols = -1;
  int row = -1;
  int col = -1;
};

/// A size and its position in the argument list.
struct SizeArgument
{
  FortranInt value;
  int position;
};

/// Checks arguments. Keeps the lowest position of a wrong one, and a text for each wrong one.
class ArgumentCheck
{
 public:
  explicit ArgumentCheck(const ContextGrid& grid, int descriptor_of_context)
      : grid_{grid}
  {
    if (grid.rows == -1) lowest_ = entry(descriptor_of_context, 2);  // ScaLAPACK prints nothing
  }

  /// The error code, or 0.
  [[nodiscard]] int info() const
  {
    if (lowest_ == none) return 0;
    return lowest_ % per_argument == 0 ? -(lowest_ / per_argument) : -lowest_;
  }

  /// The faults in ScaLAPACK's words, in the order of the checks.
  [[nodiscard]] const std::vector<std::string>& texts() const { return texts_; }

  /// Checks a one-character argument.
  /// @param overrides whether its code is reported even if a lower position is wrong
  void check_letter(char value, std::string_view allowed, const char* name, int position,
                    bool overrides = false)
  {
    if (allowed.find(value) != std::string_view::npos) return;
    if (overrides) lowest_ = none;
    report(position * per_argument, join({"Illegal ", name, " = ", value, "\n"}));
  }

  /// Checks the sub-matrix of m rows and n columns from (i, j), which count from 0. The descriptor
  /// is argument number `position`, after i and j; `x` is the name of the matrix.
  void check(SizeArgument m, SizeArgument n, FortranInt i, FortranInt j, const ArrayDescriptor& d,
             int position, const char* x)
  {
    if (grid_.rows == -1) return;
    const int at_i = (position - 2) * per_argument;
    const int at_j = (position - 1) * per_argument;
    const auto require_size = [&](const char* what, const SizeArgument& size) {
      if (size.value < 0)
        report(size.position * per_argument,
               join({"Illegal number of ", what, " of sub( ", x, " ) = ", size.value,
                     ", it must be at least 0"}));
    };
    require_size("rows", m);
    require_size("columns", n);
    const auto require_index = [&](const char* name, FortranInt index, int where) {
      if (index < 0)
        report(where,
               join({"Illegal ", name, x, " = ", index + 1, ", ", name, x, " must be at least 1"}));
    };
    require_index("I", i, at_i);
    require_index("J", j, at_j);
    if (d.type != ArrayDescriptor::with_first_blocks)
      return report(entry(position, 1), join({"Illegal descriptor type ", d.type, " for matrix ", x,
                                              ". PBLAS accepts: 1 or 2"}));
    if (d.context != grid_.context)
      return report(entry(position, 2),
                    join({"DESC", x, "[CTXT_] = ", d.context,
                          " does not match other operand's context = ", grid_.context}));
    const auto require_entry = [&](bool is_right, int number, const char* name, FortranInt value,
                                   const auto&... rule) {
      if (!is_right)
        report(entry(position, number),
               join({"Illegal DESC", x, "[", name, "] = ", value, ", ", rule...}));
    };
    const auto require_block = [&](int number, const char* name, FortranInt value) {
      require_entry(value >= 1, number, name, value, "DESC", x, "[", name, "] must be at least 1");
    };
    require_block(5, "IMB_", d.first_row_block);
    require_block(6, "INB_", d.first_col_block);
    require_block(7, "MB_", d.row_block);
    require_block(8, "NB_", d.col_block);
    const auto require_source = [&](int number, const char* name, FortranInt value, int parts) {
      require_entry(value >= -1 && value < parts, number, name, value, "DESC", x, "[", name,
                    "] must be either -1, or >= 0 and < ", parts);
    };
    require_source(9, "RSRC_", d.row_source, grid_.rows);
    require_source(10, "CSRC_", d.col_source, grid_.cols);
    if (m.value == 0 || n.value == 0)
    {
      const auto require_at_least = [&](int least, int number, const char* name, FortranInt value) {
        if (value < least)
          report(entry(position, number),
                 join({"DESC", x, "[", name, "] = ", value, ", it must be at least ", least}));
      };
      require_at_least(0, 3, "M_", d.rows);
      require_at_least(0, 4, "N_", d.cols);
      require_at_least(1, 11, "LLD_", d.ld);
      return;
    }
    require_entry(d.rows >= 1, 3, "M_", d.rows, "it must be at least 1");
    require_entry(d.cols >= 1, 4, "N_", d.cols, "it must be at least 1");
    const auto require_inside = [&](const char* size, const char* index, FortranInt n_of_it,
                                    FortranInt first, FortranInt end, int where) {
      if (static_cast<long>(first) + n_of_it > end)
        report(where, join({"Operation out of bounds: ", size, " = ", n_of_it, ", ", index, x,
                            " = ", first + 1, ", DESC", x, "[", size, "_] = ", end}));
    };
    if (d.rows >= 1 && d.cols >= 1)
    {
      require_inside("M", "I", m.value, i, d.rows, at_i);
      require_inside("N", "J", n.value, j, d.cols, at_j);
    }
    if (lowest_ == none) require_leading_dimension(d, position, x);
  }

 private:
  static constexpr int per_argument = 100;
  static constexpr int none = INT_MAX;

  [[nodiscard]] static constexpr int entry(int argument, int number)
  {
    return argument * per_argument + number;
  }
  void report(int where, std::string text)
  {
    lowest_ = std::min(lowest_, where);
    texts_.push_back(std::move(text));
  }

  /// The leading dimension may be wrong on this process alone.
  /// @pre the other entries are right
  void require_leading_dimension(const ArrayDescriptor& d, int position, const char* x)
  {
    const auto layout = d.layout({grid_.rows, grid_.cols});
    const std::size_t rows = set_of(row_sets(layout), grid_.row).stored();
    const std::size_t cols = set_of(col_sets(layout), grid_.col).stored();
    if (d.ld >= 1 && (cols == 0 || static_cast<std::size_t>(d.ld) >= rows)) return;
    const std::size_t least = d.ld < 1 ? 1 : std::max<std::size_t>(1, rows);
    report(entry(position, 11),
           join({"DESC", x, "[LLD_] = ", d.ld, ", it must be at least ", least}));
  }

  ContextGrid grid_;
  int lowest_ = none;
  std::vector<std::string> texts_;
};

}  // namespace cubist::CUBIST_ABI::detail
