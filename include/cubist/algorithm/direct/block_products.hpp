// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Block products: how one rank multiplies its parts of C = A B if it can read all blocks of A and B
// in place. A part of C is a sum of block products
//
//   C(rows, cols) += A(rows, inner) B(inner, cols)
//
// Each factor is either one piece, which lies inside the block of one rank, or is assembled from
// several pieces. Only valid elements are multiplied, each pair once.
//
// BLAS packs A again for each piece of B's columns, packs B again for each piece of A's rows, and
// reads and writes C for each panel of the inner indices. So a part is multiplied in one of two
// orders:
//
//   by panels  of the inner indices; in each, rows, columns, or the panel itself are assembled from
//              several pieces where that takes less time than multiplying these one by one;
//   by strips  of rows, where the part is tall, with few columns and few inner indices: all columns
//              of B, a strip of A and one of C stay in the core's own cache. Parts that have the
//              same rows share the strips, so that A is assembled once for all of them. Measured:
//              Cube3D, 8 ranks, 8192 x 256 x 256 in double, ratio to BLAS 0.81 -> 1.02
//              (docs/decisions/0029-row-blocking.md).

#include <cstddef>
#include <vector>

#include "cubist/algorithm/direct/gemm_times.hpp"
#include "cubist/core/block.hpp"
#include "cubist/core/compiled.hpp"
#include "cubist/matrix/placement.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// The element at which a piece begins in the block of a rank.
struct Corner
{
  int rank = 0;
  std::size_t i = 0;
  std::size_t j = 0;
};

/// One product C += A B. Each factor is one piece, or is assembled from several.
struct BlockProduct
{
  struct Piece
  {
    Corner from;
    Rectangle to;  // in the factor
  };

  std::vector<Piece> a;
  std::vector<Piece> b;
  Corner c;
  ProductSize size;
  bool first = true;        // the first product that writes to this piece of C
  bool same_a = false;      // A is the same as in the previous product
  bool same_b = false;      // B is the same as in the previous product with this slot
  std::size_t b_slot = 0;   // the workspace that holds an assembled B
  std::size_t repeats = 1;  // how many equal products this entry stands for

  /// The predicted time on one core, including the time to assemble the factors.
  [[nodiscard]] double time(const GemmTimes& times) const
  {
    std::size_t copied = 0;
    if (a.size() > 1 && !same_a) copied += size.m * size.k;
    if (b.size() > 1 && !same_b) copied += size.k * size.n;
    return static_cast<double>(repeats) * (times(size) + times.copy * static_cast<double>(copied));
  }
};

/// What a list of products is for. A list that predicts a time has one entry for products that
/// differ only in where their pieces lie, so it does not grow with the matrices.
enum class ProductList
{
  to_compute,
  to_predict
};

/// A block of C that a rank computes, and where the rank writes it.
struct TargetPart
{
  Block part;
  Corner origin;
};

}  // namespace cubist::CUBIST_ABI::detail

#include CUBIST_BODY("cubist/algorithm/direct/block_products_body.hpp")
