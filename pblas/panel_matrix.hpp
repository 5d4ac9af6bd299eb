// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A block-cyclic matrix that stays on the program's grid, for products panel by panel
// (gemm_panels.hpp, triangular_panels.hpp).
//
// A panel is some consecutive rows or columns of a matrix. While one is multiplied, the messages of
// the next ones are in flight.

#include <algorithm>
#include <cstddef>
#include <deque>
#include <type_traits>
#include <utility>
#include <vector>

#include <cubist/comm/communicator.hpp>
#include <cubist/core/block.hpp>
#include <cubist/core/matrix_view.hpp>
#include <cubist/core/scalar.hpp>
#include <cubist/engine/engine.hpp>
#include <cubist/engine/host/engine.hpp>
#include <cubist/engine/shapes.hpp>
#include <cubist/foreign/block_cyclic.hpp>
#include <cubist/foreign/distribution.hpp>
#include <cubist/foreign/foreign_matrix.hpp>
#include <cubist/foreign/index_set.hpp>
#include <cubist/foreign/triangular.hpp>

#include "local_part.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Some lines of a matrix: rows, or columns.
struct Lines
{
  std::size_t begin = 0;
  std::size_t size = 0;

  [[nodiscard]] std::size_t end() const { return begin + size; }
};

/// The layout of a block-cyclic sub-matrix that is cut into panels of rows, or of columns. Below,
/// `lines` are its rows, or its columns, and `others` the other dimension.
class PanelLayout
{
 public:
  using Sets = std::vector<IndexSet>;

  PanelLayout(const SubMatrixPlace& place, Shape size, bool by_rows)
      : by_rows_{by_rows},
        shape_{by_rows ? size : Shape{size.cols, size.rows}}
  {
    const BlockCyclic layout = layout_of(place, size);
    grid_ = layout.grid;
    of_lines_ = by_rows ? row_sets(layout) : col_sets(layout);
    of_others_ = by_rows ? col_sets(layout) : row_sets(layout);
  }

  [[nodiscard]] bool by_rows() const { return by_rows_; }
  [[nodiscard]] std::size_t lines() const { return shape_.rows; }
  [[nodiscard]] std::size_t others() const { return shape_.cols; }
  [[nodiscard]] const ProcessGrid& grid() const { return grid_; }
  /// The ranks of the grid among which lines are distributed.
  [[nodiscard]] std::size_t parts() const
  {
    return static_cast<std::size_t>(by_rows_ ? grid_.rows : grid_.cols);
  }
  /// The number of different sets of others.
  [[nodiscard]] std::size_t terms() const { return of_others_.size(); }
  /// Returns the lines of a rank of the grid.
  [[nodiscard]] const IndexSet& lines_of(int rank) const
  {
    return set_of(of_lines_, by_rows_ ? grid_.row(rank) : grid_.col(rank));
  }

  /// Returns lines `i` and others `k` of a matrix.
  template <class M>
  [[nodiscard]] M block(const M& m, Lines i, Lines k) const
  {
    return by_rows_ ? m.submatrix(i.begin, k.begin, {i.size, k.size})
                    : m.submatrix(k.begin, i.begin, {k.size, i.size});
  }

  /// Makes the distribution of a block that every rank holds whole.
  [[nodiscard]] Distribution everywhere(std::size_t n) const
  {
    return distribution(n, {IndexSet::interval(0, n)}, n, {IndexSet::interval(0, n)});
  }
  /// Makes the distribution of a block that has the lines where this matrix has them, and all
  /// others everywhere.
  [[nodiscard]] Distribution by_lines(Lines i, std::size_t others) const
  {
    return by_lines(i, others, Sets{IndexSet::interval(0, others)});
  }
  /// Makes the distribution of a block whose others only the ranks of one term hold.
  [[nodiscard]] Distribution by_lines(Lines i, std::size_t others, std::size_t term) const
  {
    Sets sets(terms());
    sets[term] = IndexSet::interval(0, others);
    return by_lines(i, others, std::move(sets));
  }
  /// Makes the distribution of a block of which each rank has a set of the others.
  /// @param of_others the sets of the ranks among which this matrix has its others
  [[nodiscard]] Distribution by_lines(Lines i, std::size_t others, Sets of_others,
                                      StorageOrder order = StorageOrder::column_major) const
  {
    Sets sets = windows(of_lines_, i.begin, i.size);
    for (IndexSet& set : sets) set = set.packed();
    return distribution(i.size, std::move(sets), others, std::move(of_others), order);
  }
  /// Makes the distribution of some lines that has the others where this matrix has them, and all
  /// these lines everywhere.
  [[nodiscard]] Distribution by_others(Lines i) const
  {
    return distribution(i.size, {IndexSet::interval(0, i.size)}, others(), of_others_);
  }

 private:
  [[nodiscard]] Distribution distribution(std::size_t lines, Sets of_lines, std::size_t others,
                                          Sets of_others,
                                          StorageOrder order = StorageOrder::column_major) const
  {
    if (by_rows_) return {{lines, others}, grid_, order, std::move(of_lines), std::move(of_others)};
    return {{others, lines}, grid_, order, std::move(of_others), std::move(of_lines)};
  }

  bool by_rows_;
  Shape shape_;  // lines and others
  ProcessGrid grid_;
  Sets of_lines_;  // for each row of the grid, or for each column
  Sets of_others_;
};

/// A block-cyclic matrix that stays where it is, with the PanelLayout of its panels.
template <Communicator C, class T>
class PanelMatrix : public PanelLayout
{
  using Value = std::remove_const_t<T>;

 public:
  PanelMatrix(C& world, const PlacedMatrix<T>& m, bool by_rows)
      : PanelLayout{m.whole.place, m.size, by_rows},
        world_{world},
        matrix_{world, m.whole, m.size}
  {
    const int rank = world.rank();
    if (rank >= grid().size()) return;
    mine_ = lines_of(rank);
    const LocalPart part = local_part(m.whole.place, m.size, rank);
    if (part.shape.size() > 0)
      local_ = {m.whole.data + part.row + part.col * m.whole.ld, part.shape.cols, part.shape.rows,
                m.whole.ld};
  }

  [[nodiscard]] C& world() const { return world_; }
  [[nodiscard]] const ForeignMatrix<T>& matrix() const { return matrix_; }

  /// Returns the lines as this rank counts its own.
  [[nodiscard]] Lines local(Lines i) const
  {
    const std::size_t begin = mine_.count_below(i.begin);
    return {begin, mine_.count_below(i.end()) - begin};
  }
  /// The transpose, stored by rows, of this rank's elements.
  [[nodiscard]] MatrixView<T> local() const { return local_; }
  /// Returns some of its lines. `m` is stored like local(), and begins with this rank's line
  /// `first`.
  template <class U>
  [[nodiscard]] MatrixView<U> local(MatrixView<U> m, Lines i, std::size_t first = 0) const
  {
    const Lines own = local(i);
    return by_rows() ? m.block(0, own.begin - first, {m.rows(), own.size})
                     : m.block(own.begin - first, 0, {own.size, m.cols()});
  }
  /// Calls f(line of this rank, line of the panel, number) for this rank's lines of a panel.
  template <class F>
  void for_each_run(Lines panel, F f) const
  {
    for_each_common_run(mine_.window(panel.begin, panel.size), IndexSet::interval(0, panel.size),
                        [&](std::size_t, std::size_t size, std::size_t to, std::size_t from) {
                          f(to - mine_.first_position(), from, size);
                        });
  }

  /// Starts to send some lines to all ranks that have the same others.
  void start(std::deque<MatrixInFlight<C, Value>>& in_flight, Lines i) const
  {
    in_flight.emplace_back(world_, block(matrix_, i, {0, others()}), Op::none, by_others(i));
  }

 private:
  C& world_;
  ForeignMatrix<T> matrix_;
  IndexSet mine_;  // this rank's lines
  MatrixView<T> local_;
};

/// Returns how many lines a panel has: few enough that the first panels, for which ranks wait, are
/// a small part of all, and enough for BLAS.
/// @param parts the ranks among which the n lines are distributed
[[nodiscard]] inline std::size_t panel_depth(std::size_t n, std::size_t parts)
{
  constexpr std::size_t least = 128;
  constexpr std::size_t most = 256;
  return std::clamp(pad(ceil_div(n, 8 * parts), 64), least, most);
}

/// Cuts n lines into panels of at most `depth`.
[[nodiscard]] inline std::vector<Lines> cut_into_panels(std::size_t n, std::size_t depth)
{
  std::vector<Lines> panels;
  for (std::size_t at = 0; at < n; at += depth) panels.push_back({at, std::min(depth, n - at)});
  return panels;
}

/// Computes out = alpha op(a) op(b) + beta out in parts, and calls advance() after each.
template <Scalar T, class F>
void multiply_in_parts(Op op_a, Op op_b, T alpha, MatrixView<const T> a, MatrixView<const T> b,
                       T beta, MatrixView<T> out, F advance)
{
  constexpr std::size_t most = 256;  // rows or columns of a part
  const auto [rows, cols] = out.shape();
  const std::size_t k = op_shape(op_a, a.shape()).cols;
  const auto multiply = [&](std::size_t i, std::size_t j, Shape part) {
    const Shape of_a = op_shape(op_a, {part.rows, k});
    const Shape of_b = op_shape(op_b, {k, part.cols});
    HostEngine{}.gemm(
        op_a, op_b, alpha, op_a == Op::none ? a.block(i, 0, of_a) : a.block(0, i, of_a),
        op_b == Op::none ? b.block(0, j, of_b) : b.block(j, 0, of_b), beta, out.block(i, j, part));
    advance();
  };
  if (rows > cols)
    for (std::size_t i = 0; i < rows; i += most) multiply(i, 0, {std::min(most, rows - i), cols});
  else
    for (std::size_t j = 0; j < cols; j += most) multiply(0, j, {rows, std::min(most, cols - j)});
}

}  // namespace cubist::CUBIST_ABI::detail
