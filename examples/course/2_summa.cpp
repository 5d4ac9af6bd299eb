// SPDX-License-Identifier: BSD-3-Clause
// Exercise 2: SUMMA from its loop (docs/course.md). Mark it with: scripts/course 2

#include "course.hpp"

/// Adds X W to Y on r x c ranks. X (M, K), W (K, N) and Y (M, N) are cut alike: rows over the rows
/// of ranks, columns over the columns of ranks, as course::part says. This rank holds the blocks x,
/// w and y, and y is zero.
///
/// SUMMA walks along K in panels. For each panel of indices [k, end), which lie in one block of X's
/// columns and in one block of W's rows:
///
///   1. the rank of this row that holds these columns of X broadcasts them along the row;
///   2. the rank of this column that holds these rows of W broadcasts them along the column;
///   3. each rank multiplies the two parts, and adds the product to y.
///
/// You have two communicators, their rank() and size(), and the calls below. The ranks of a row
/// differ in their column, so a row is along Col.
///
///   auto& row = mesh.along<cubist::Col>()         the ranks of this rank's row
///   auto& column = mesh.along<cubist::Row>()      the ranks of its column
///   row.broadcast(buffer, root)                   buffer: a std::vector<double>, equally long
///                                                 on all ranks; the data are those of `root`
///   course::Block{buffer.data(), {rows, cols}}    its memory as a block
///   x.block(i, j, {rows, cols})                   a part of a block, from its row i and column j
///   course::copy(mesh.engine(), from, to)         copies one block to another
///   course::add_product(mesh.engine(), a, b, y)   y += a b
///
/// All sizes may be uneven; a block may be empty.
void summa(const course::Mesh2D& mesh, cubist::ProductSize size, course::ConstBlock x,
           course::ConstBlock w, course::Block y)
{
  // Your code here.
  static_cast<void>(mesh);
  static_cast<void>(size);  // m, n and k of the whole product
  static_cast<void>(x);
  static_cast<void>(w);
  static_cast<void>(y);
}

int main(int argc, char** argv) { return course::check_summa(argc, argv, summa); }
