// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Sorts the indices of a product's matrices so that conversions need fewer messages.
//
// C = op(A) op(B) stays true if the rows of op(A) and C are permuted in the same way, or the
// columns of op(B) and C, or the inner indices of op(A) and op(B). If both matrices of a dimension
// have the same indices on the same parts of their grids, the dimension is ordered by part:
//
//   block-cyclic       part 0: 0 1 4 5    part 1: 2 3 6 7
//   ordered by part    part 0: 0 1 2 3    part 1: 4 5 6 7
//
// Then each part has an interval, in the order of its local array. A scheme that cuts the dimension
// into as many blocks finds them where it needs them, except for elements at the edges of uneven
// parts. So if a product runs on the program's grid, with a scheme that keeps C in place, its
// conversions send nothing. In the natural order, they would send almost every element.

#include <algorithm>
#include <cstddef>
#include <vector>

#include <cubist/core/block.hpp>
#include <cubist/engine/engine.hpp>
#include <cubist/engine/shapes.hpp>
#include <cubist/foreign/block_cyclic.hpp>
#include <cubist/foreign/distribution.hpp>
#include <cubist/foreign/index_set.hpp>

#include "product_arguments.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Returns the indices of each part of a dimension after all indices have been ordered by part.
[[nodiscard]] inline std::vector<IndexSet> ordered_by_part(const std::vector<IndexSet>& parts)
{
  std::vector<IndexSet> ordered;
  std::size_t first = 0;
  for (const IndexSet& part : parts)
  {
    ordered.push_back(IndexSet::interval(first, part.size(), part.first_position()));
    first += part.size();
  }
  return ordered;
}

/// Whether each part has the same indices of two dimensions.
[[nodiscard]] inline bool have_same_parts(const std::vector<IndexSet>& a,
                                          const std::vector<IndexSet>& b)
{
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const IndexSet& x, const IndexSet& y) {
                      return x.size() == y.size() && common_size(x, y) == x.size();
                    });
}

/// Orders a dimension of two matrices by part, if it has the same parts in both.
inline void order_by_part(std::vector<IndexSet>& a, std::vector<IndexSet>& b)
{
  if (!have_same_parts(a, b)) return;
  a = ordered_by_part(a);
  b = ordered_by_part(b);
}

/// The three matrices of a product as they are stored. Every dimension that can be ordered by part
/// is.
struct OrderedProduct
{
  Distribution a;
  Distribution b;
  Distribution c;

  explicit OrderedProduct(const ProductArguments& call)
  {
    const auto [m, n, k] = call.size;
    OpOfMatrix of_a{call.op_a, call.a, {m, k}};
    OpOfMatrix of_b{call.op_b, call.b, {k, n}};
    OpOfMatrix of_c{Op::none, call.c, {m, n}};
    order_by_part(of_a.rows, of_c.rows);
    order_by_part(of_b.cols, of_c.cols);
    order_by_part(of_a.cols, of_b.rows);
    a = of_a.stored();
    b = of_b.stored();
    c = of_c.stored();
  }

 private:
  /// The rows and columns of op of a sub-matrix, for each part of the grid.
  struct OpOfMatrix
  {
    Op op;
    BlockCyclic layout;
    Shape shape;  // the shape of the sub-matrix
    std::vector<IndexSet> rows;
    std::vector<IndexSet> cols;

    OpOfMatrix(Op o, const SubMatrixPlace& x, Shape of_op)
        : op{o},
          layout{x.layout},
          shape{op_shape(o, of_op)},
          rows{windows(row_sets(layout), x.i, shape.rows)},
          cols{windows(col_sets(layout), x.j, shape.cols)}
    {
      if (op != Op::none) rows.swap(cols);
    }
    [[nodiscard]] Distribution stored() const
    {
      return op == Op::none ? Distribution{shape, layout.grid, layout.order, rows, cols}
                            : Distribution{shape, layout.grid, layout.order, cols, rows};
    }
  };
};

}  // namespace cubist::CUBIST_ABI::detail
