// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// What the exercises of docs/course.md have in common: their types, and the functions that mark
// them. Ranks are threads. They count what they send, and a trace records what they do.

#include <cstddef>
#include <cstdint>
#include <span>

#include <cubist/backend/threads.hpp>
#include <cubist/core/block.hpp>
#include <cubist/core/matrix_view.hpp>
#include <cubist/mesh/axes.hpp>
#include <cubist/mesh/mesh.hpp>
#include <cubist/testing/counting.hpp>
#include <cubist/trace/traced.hpp>

namespace course
{

using Backend = cubist::Counting<cubist::Traced<cubist::Threads>>;

/// A communicator: `rank()`, `size()`, `async_send`, `receive`, `broadcast`, … and `traffic()`,
/// which counts what this rank has sent (cubist/comm/communicator.hpp and traffic.hpp).
using World = Backend::Communicator;

/// r x c ranks. `mesh.along<cubist::Col>()` is the communicator of this rank's row, in which only
/// the column differs, and `mesh.along<cubist::Row>()` is that of its column.
using Mesh2D = cubist::AxisMesh<cubist::Axes<cubist::Row, cubist::Col>, Backend>;

/// d layers of q x q ranks. `mesh.along<cubist::Depth>()` connects the ranks at this rank's place
/// in all layers; rows and columns lie within one layer.
using Mesh25D = cubist::AxisMesh<cubist::Axes<cubist::Depth, cubist::Row, cubist::Col>, Backend>;

/// A reference to a block of a matrix: `rows()`, `cols()`, `block(row, col, {rows, cols})`.
/// `Block{buffer.data(), {rows, cols}}` refers to the elements of a std::vector.
using Block = cubist::MatrixView<double>;
using ConstBlock = cubist::MatrixView<const double>;

/// Copies a block to one of the same shape.
/// @param engine the rank's engine: `mesh.engine()`
inline void copy(const Backend::Engine& engine, ConstBlock from, Block to)
{
  engine.copy(from, to);
}

/// Adds the product a b to y, by BLAS.
inline void add_product(const Backend::Engine& engine, ConstBlock a, ConstBlock b, Block y)
{
  engine.gemm(cubist::Op::none, cubist::Op::none, 1.0, a, b, 1.0, y);
}

/// Returns part `index` of n indices that are cut into parts of ceil(n / parts): it has `size`
/// indices, starting at `offset`. The last parts may be shorter, or empty.
[[nodiscard]] constexpr cubist::Range part(std::size_t n, int parts, int index)
{
  return cubist::part_of_range({0, n, n}, static_cast<std::size_t>(parts),
                               static_cast<std::size_t>(index));
}

/// The elements that all ranks send in total in the two parts of a step with 2.5D.
struct Sent25D
{
  std::uint64_t forward = 0;   ///< in Y = X W
  std::uint64_t gradient = 0;  ///< to sum dW over the layers of ranks
};

/// A mesh for Y = X W: `layers` of rows x cols ranks.
struct Choice
{
  int rows = 1;
  int cols = 1;
  int layers = 1;  ///< 1 is Summa2D; more are Summa25D, where rows and cols are equal
};

/// Each of these runs an answer, prints what is right and the first thing that is wrong, and
/// returns 0 if nothing is. With an argument FILE, an answer that is right writes a trace to
/// FILE.json.
int check_all_reduce(int argc, char** argv, void (*all_reduce)(World&, std::span<std::int64_t>));
int check_summa(int argc, char** argv,
                void (*summa)(const Mesh2D&, cubist::ProductSize, ConstBlock, ConstBlock, Block));
int check_count(int argc, char** argv, std::uint64_t (*sent_by_all)(World&),
                std::uint64_t (*formula)(cubist::ProductSize, int r, int c));
int check_summa25d(int argc, char** argv,
                   void (*forward)(const Mesh25D&, cubist::ProductSize, ConstBlock, ConstBlock,
                                   Block),
                   void (*sum_gradient)(const Mesh25D&, std::span<double>),
                   Sent25D (*formula)(cubist::ProductSize, int q, int d));
int check_mesh(int argc, char** argv, Choice (*fastest)(cubist::ProductSize, int ranks));

}  // namespace course
