// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Sorts the indices of a product's matrices so that conversions need fewer messages.
//
// C = op(A) op(B) stays the same if the rows of op(A) and C are permuted in the same way, or the
// columns of op(B) and C, or the inner indices of op(A) and op(B). If both matrices of a dimension
// have the same indices on the same parts of their grids, the dimension is ordered by part:
//
//   block-cyclic       part 0: 0 1 4 5    part 1: 2 3 6 7
//   ordered by part    part 0: 0 1 2 3    part 1: 4 5 6 7
//
// Then each part has an interval, in the order of its local array. A scheme that cuts the dimension
// into as many blocks finds them where they are needed, up to elements at the edges of uneven
// parts. So if a product runs on the grid of the program, by a scheme that keeps C in place, its
// conversions send nothing. In the natural order they would send almost every element.

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "cubist/comm/communicator.hpp"
#include "cubist/core/block.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/engine/shapes.hpp"
#include "cubist/foreign/distribution.hpp"
#include "cubist/foreign/foreign_matrix.hpp"
#include "cubist/foreign/index_set.hpp"
#include "cubist/pblas/block_cyclic_matrix.hpp"
#include "cubist/pblas/cyclic_dimension.hpp"
#include "cubist/pblas/product_arguments.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// The rows or the columns of a sub-matrix, which begins at an index of a whole matrix.
struct SubMatrixDimension
{
  CyclicDimension whole;
  std::size_t begin = 0;

  [[nodiscard]] static SubMatrixDimension rows(const SubMatrixPlace& x)
  {
    return {CyclicDimension::rows(x.layout), x.i};
  }
  [[nodiscard]] static SubMatrixDimension cols(const SubMatrixPlace& x)
  {
    return {CyclicDimension::cols(x.layout), x.j};
  }

  /// For each part, its indices of the sub-matrix in an order by part.
  [[nodiscard]] std::vector<IndexSet> sets_by_part(std::size_t size) const
  {
    std::vector<IndexSet> sets;
    std::size_t first = 0;
    for (int part = 0; part < whole.parts; ++part)
    {
      const std::size_t n = whole.count(part, begin + size) - whole.count(part, begin);
      sets.push_back(IndexSet::interval(first, n));
      first += n;
    }
    return sets;
  }
};

/// Whether each part has the same of the first `size` indices of two dimensions. False where parts
/// have all indices.
[[nodiscard]] inline bool have_same_parts(const SubMatrixDimension& a, const SubMatrixDimension& b,
                                          std::size_t size)
{
  if (a.whole.replicated() || b.whole.replicated() || a.whole.parts != b.whole.parts) return false;
  if (a.whole.parts == 1 || size == 0) return true;
  if (a.whole.owner(a.begin) != b.whole.owner(b.begin)) return false;
  const auto first_run = [&](const SubMatrixDimension& d) {
    return std::min(size, d.whole.end_of_block(d.begin) - d.begin);
  };
  const std::size_t first = first_run(a);
  if (first != first_run(b)) return false;
  return a.whole.block == b.whole.block || size - first <= std::min(a.whole.block, b.whole.block);
}

/// A sub-matrix of a product, whose rows and columns may be ordered by part.
class OrderedMatrix
{
 public:
  OrderedMatrix(const SubMatrixPlace& place, Shape shape, bool rows_by_part, bool cols_by_part)
      : place_{place}, rows_by_part_{rows_by_part}, cols_by_part_{cols_by_part}
  {
    BlockCyclic layout = place.layout;
    std::vector<IndexSet> rows;
    std::vector<IndexSet> cols;
    if (rows_by_part)
    {
      rows = SubMatrixDimension::rows(place).sets_by_part(shape.rows);
      layout.shape.rows = shape.rows;
    }
    if (cols_by_part)
    {
      cols = SubMatrixDimension::cols(place).sets_by_part(shape.cols);
      layout.shape.cols = shape.cols;
    }
    distribution_ = Distribution::of_sets(layout, std::move(rows), std::move(cols))
                        .submatrix(rows_by_part ? 0 : place.i, cols_by_part ? 0 : place.j, shape);
  }

  [[nodiscard]] const Distribution& distribution() const { return distribution_; }

  /// The matrix with the local array of the whole matrix; ranks outside of its grid have none.
  template <Communicator W, class T>
  [[nodiscard]] ForeignMatrix<T> matrix(const W& world, LocalColumns<T> local) const
  {
    const auto& grid = place_.layout.grid;
    if (world.rank() >= grid.size() || local.data == nullptr)
      return {world, distribution_, nullptr, local.ld};
    const std::size_t row =
        rows_by_part_ ? CyclicDimension::rows(place_.layout).count(grid.row(world.rank()), place_.i)
                      : 0;
    const std::size_t col =
        cols_by_part_ ? CyclicDimension::cols(place_.layout).count(grid.col(world.rank()), place_.j)
                      : 0;
    return {world, distribution_, local.data + row + col * local.ld, local.ld};
  }

 private:
  SubMatrixPlace place_;
  bool rows_by_part_;
  bool cols_by_part_;
  Distribution distribution_;
};

/// The three matrices of a product as they are stored, with every dimension ordered by part that
/// can be.
struct OrderedProduct
{
  OrderedMatrix a;
  OrderedMatrix b;
  OrderedMatrix c;

  explicit OrderedProduct(const ProductArguments& call) : OrderedProduct{call, orders(call)} {}

 private:
  /// Which dimensions are ordered by part.
  struct Orders
  {
    bool m;
    bool n;
    bool k;
  };

  [[nodiscard]] static Orders orders(const ProductArguments& call)
  {
    const auto rows_of_op = [](Op op, const SubMatrixPlace& x) {
      return op == Op::none ? SubMatrixDimension::rows(x) : SubMatrixDimension::cols(x);
    };
    const auto cols_of_op = [](Op op, const SubMatrixPlace& x) {
      return op == Op::none ? SubMatrixDimension::cols(x) : SubMatrixDimension::rows(x);
    };
    const auto [m, n, k] = call.size;
    return {have_same_parts(rows_of_op(call.op_a, call.a), SubMatrixDimension::rows(call.c), m),
            have_same_parts(cols_of_op(call.op_b, call.b), SubMatrixDimension::cols(call.c), n),
            have_same_parts(cols_of_op(call.op_a, call.a), rows_of_op(call.op_b, call.b), k)};
  }

  OrderedProduct(const ProductArguments& call, const Orders& by_part)
      : a{stored(call.op_a, call.a, {call.size.m, call.size.k}, by_part.m, by_part.k)},
        b{stored(call.op_b, call.b, {call.size.k, call.size.n}, by_part.k, by_part.n)},
        c{call.c, {call.size.m, call.size.n}, by_part.m, by_part.n}
  {
  }

  [[nodiscard]] static OrderedMatrix stored(Op op, const SubMatrixPlace& x, Shape shape_of_op,
                                            bool rows_of_op, bool cols_of_op)
  {
    if (op == Op::none) return {x, shape_of_op, rows_of_op, cols_of_op};
    return {x, op_shape(op, shape_of_op), cols_of_op, rows_of_op};
  }
};

}  // namespace cubist::CUBIST_ABI::detail
