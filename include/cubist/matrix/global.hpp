// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Scatters a global matrix on rank 0 to the shards, and gathers it back. Global matrices are
// xtensor expressions. Blocks are sent one at a time, so rank 0 needs memory for the global matrix
// and one block. If the global matrix is not a row-major container, rank 0 also needs memory for a
// row-major copy of it.
//
// Elements sent: scatter sends each rank its padded block, and all-reduces one number if rank 0's
// matrix is empty; in gather, the first replica of each block sends it, padded. Idle ranks of the
// mesh take no part.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#if __has_include(<xtensor/containers/xtensor.hpp>)
#include <xtensor/containers/xtensor.hpp>
#else
#include <xtensor/xtensor.hpp>
#endif

#include "cubist/comm/call.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/instances.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/matrix/dist_matrix.hpp"
#include "cubist/matrix/staging.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

/// Calls f(elements) on this rank's block in contiguous memory: on the block itself, or on a copy.
template <class T, class M, class F>
void with_packed(const DistView<T, M>& x, F f)
{
  if (x.padded.contiguous()) return f(x.padded.elements());
  typename M::Engine::template Buffer<std::remove_const_t<T>> buffer(x.padded.size());
  const MatrixView<std::remove_const_t<T>> packed{buffer.data(), x.padded.shape()};
  if constexpr (std::is_const_v<T>)
  {
    x.mesh.engine().copy(x.padded, packed);
    f(MatrixView<T>{packed}.elements());
  }
  else
  {
    f(packed.elements());
    x.mesh.engine().copy(MatrixView<const T>{packed}, x.padded);
  }
}

/// Sends each rank its block of `global`, which only rank 0 reads.
template <class T, class M>
void scatter_blocks(MatrixView<const T> global, const DistView<T, M>& out)
{
  auto& world = out.mesh.world();
  const auto& engine = out.mesh.engine();
  if (world.rank() != 0)
  {
    if (out.padded.size() > 0)
      with_packed(out, [&](std::span<T> block) { world.receive(block, 0); });
    return;
  }

  const auto block = [&](int rank) {
    const Block b = out.block(rank);
    return global.block(b.rows.offset, b.cols.offset, b.valid());
  };
  engine.fill(out.padded, T{});
  engine.upload(block(0), out.valid());
  typename M::Engine::template Buffer<T> buffer(0);
  for (int rank = 1; rank < world.size(); ++rank)
  {
    const Shape shape = out.block(rank).padded();
    const MatrixView<T> staged{enlarge(buffer, shape.size()), shape};
    if (staged.size() == 0) continue;
    engine.fill(staged, T{});
    engine.upload(block(rank), staged.block(0, 0, block(rank).shape()));
    world.send(staged.elements(), rank);
  }
}

/// The number of dimensions of a tensor, and its rows and columns if it has two.
using Extents = std::array<std::uint64_t, 3>;

/// @throws ShapeError on all ranks if a rank has a matrix with elements
/// @pre rank 0 has none
template <class M>
void require_none_elsewhere(const M& mesh, Extents mine)
{
  const auto holder = static_cast<std::uint64_t>(mine[1] * mine[2] > 0 ? mesh.rank() : 0);
  const auto rank = static_cast<int>(all_reduced(mesh, holder, ReduceOp::max));
  if (rank == 0) return;
  with_staging_buffer(mesh.engine(), std::span<std::uint64_t>{mine},
                      [&](auto values) { mesh.world().broadcast(values, rank); });
  throw ShapeError{join(
      {"got a matrix of ", Shape{mine[1], mine[2]}, " on rank ", rank,
       " and an empty one on rank 0, from which global matrices are scattered, so all blocks would "
       "be empty; pass the matrix on rank 0"})};
}

/// Returns the shape of rank 0's tensor on all ranks, from the extents of each rank's tensor.
template <class M>
Shape broadcast_extents(const M& mesh, Extents mine)
{
  Extents shape = mine;
  with_staging_buffer(mesh.engine(), std::span<std::uint64_t>{shape},
                      [&](auto values) { mesh.world().broadcast(values, 0); });
  if (shape[1] * shape[2] == 0) require_none_elsewhere(mesh, mine);
  require<ShapeError>(shape[0] == 2, "got a tensor of ", shape[0],
                      " dimensions, but only matrices are distributed; reshape it to two");
  return {shape[1], shape[2]};
}

/// Returns the shape of rank 0's `global` on all ranks.
template <class M, class E>
Shape broadcast_shape(const M& mesh, const E& global)
{
  Extents mine{global.dimension()};
  if (mine[0] == 2) mine = {2, global.shape()[0], global.shape()[1]};
  return broadcast_extents(mesh, mine);
}

/// A tensor of N dimensions whose elements are stored row by row. xt::xtensor<T, N> is a different
/// type in a program that defines XTENSOR_DEFAULT_LAYOUT.
template <class T, std::size_t N>
using RowMajor = xt::xtensor<T, N, xt::layout_type::row_major>;

/// Returns an xtensor expression of N dimensions as a row-major tensor, by reference if it is one.
template <class T, std::size_t N>
const RowMajor<T, N>& as_row_major(const RowMajor<T, N>& x)
{
  return x;
}
template <class T, std::size_t N, class E>
RowMajor<T, N> as_row_major(const E& x)
{
  return x;
}

/// Sends each rank its block of rank 0's `global`, which has the shape of `out`.
template <class T, class M, class E>
void scatter_global(const E& global, const DistView<T, M>& out)
{
  if (out.mesh.rank() != 0) return scatter_blocks<T, M>({}, out);
  decltype(auto) matrix = as_row_major<T, 2>(global);
  scatter_blocks<T, M>({matrix.data(), out.shape}, out);
}

/// Returns a matrix of scalar `T` and layout `L` with the elements of rank 0's `global`.
template <class T, class L, class A, class B, class E>
[[nodiscard]] auto scatter_as(const AxisMesh<A, B>& mesh, const E& global)
{
  require_not_partial<L>();
  DistMatrix<T, L, AxisMesh<A, B>> out{mesh, broadcast_shape(mesh, global)};
  scatter_global(global, out.view());
  return out;
}

}  // namespace detail

/// Returns a matrix of layout `L` with the elements of rank 0's `global` (M, N); those of other
/// ranks are not read. All ranks of the mesh call it.
/// @throws ShapeError on all ranks unless `global` has two dimensions, or if it is empty on rank 0
/// but not on another rank; MeshError on an idle rank
template <class L, class A, class B, class E>
[[nodiscard]] auto scatter(const AxisMesh<A, B>& mesh, const E& global)
{
  static_assert(
      requires { global.dimension(); },
      "this global matrix is not an xtensor expression, so its rows and columns are unknown; "
      "pass an xt::xtensor<T, 2>, or xt::adapt(elements, {rows, columns}) for a vector that holds "
      "the elements row by row");
  return detail::scatter_as<std::remove_cv_t<typename E::value_type>, L>(mesh, global);
}

/// Sets a distributed matrix (M, N) from rank 0's `global`. All ranks of the mesh call it; idle
/// ranks may.
/// @throws ShapeError on all ranks unless rank 0's `global` has the shape of `out`
template <class T, class M, class E>
void scatter(const E& global, const DistView<T, M>& out)
{
  if (!out.mesh.active()) return;
  const Shape shape = detail::broadcast_shape(out.mesh, global);
  require<ShapeError>(shape == out.shape, "got a matrix of ", shape, " for a matrix of ", out.shape,
                      ", so their elements do not correspond; give both the same shape");
  detail::scatter_global(global, out);
}
template <class T, class L, class M, class E>
void scatter(const E& global, DistMatrix<T, L, M>& out)
{
  scatter(global, out.view());
}

/// Returns a matrix with the elements of rank 0's `global` (M, N), cut like `y` (M, N) and with the
/// same scalar. All ranks of the mesh call it.
/// @throws ShapeError on all ranks unless rank 0's `global` has the shape of `y`
template <class T, class L, class M, class E>
[[nodiscard]] DistMatrix<T, L, M> scatter_like(const DistMatrix<T, L, M>& y, const E& global)
{
  DistMatrix<T, L, M> out{y.mesh(), y.shape(), y.quanta()};
  scatter(global, out);
  return out;
}

/// Returns the global matrix (M, N) on rank 0, in the layout of the program's xtensor containers,
/// and an empty one on other ranks. All ranks of the mesh call it; idle ranks may.
template <class T, class M>
[[nodiscard]] xt::xtensor<std::remove_const_t<T>, 2> gather(const DistView<T, M>& x)
{
  using Value = std::remove_const_t<T>;
  using Global = xt::xtensor<Value, 2>;
  if (!x.mesh.active()) return Global::from_shape({0, 0});
  auto& world = x.mesh.world();
  if (world.rank() != 0)
  {
    if (x.is_primary(world.rank()))
    {
      const DistView<const Value, M> mine = x;
      detail::with_packed(mine, [&](std::span<const Value> block) { world.send(block, 0); });
    }
    return Global::from_shape({0, 0});
  }
  auto global = detail::RowMajor<Value, 2>::from_shape({x.shape.rows, x.shape.cols});
  const MatrixView<Value> all{global.data(), x.shape};
  const auto copy_block = [&](int rank, MatrixView<const Value> block) {
    const Block b = x.block(rank);
    x.mesh.engine().download(block.block(0, 0, b.valid()),
                             all.block(b.rows.offset, b.cols.offset, b.valid()));
  };
  copy_block(0, x.padded);
  typename M::Engine::template Buffer<Value> buffer(0);
  for (int rank = 1; rank < world.size(); ++rank)
    if (x.is_primary(rank))
    {
      const Shape shape = x.block(rank).padded();
      const MatrixView<Value> staged{detail::enlarge(buffer, shape.size()), shape};
      world.receive(staged.elements(), rank);
      copy_block(rank, staged);
    }
  return global;
}
template <class T, class L, class M>
[[nodiscard]] auto gather(const DistMatrix<T, L, M>& x)
{
  return gather(x.view());
}

/// The instances of the compiled library (cubist/core/instances.hpp).
#define CUBIST_EXTENTS_INSTANCES(prefix, A, B)                                                     \
  prefix Shape detail::broadcast_extents<AxisMesh<A, B>>(const AxisMesh<A, B>&, detail::Extents);
CUBIST_FOR_MESHES(CUBIST_EXTENTS_INSTANCES)
/// The instances of the compiled library (cubist/core/instances.hpp).
#define CUBIST_GLOBAL_INSTANCES(prefix, M, T)                                                      \
  prefix void detail::scatter_blocks<T, M>(MatrixView<const T>, const DistView<T, M>&);            \
  prefix xt::xtensor<T, 2> gather<T, M>(const DistView<T, M>&);
CUBIST_FOR_MESH_SCALARS(CUBIST_GLOBAL_INSTANCES)

}  // namespace cubist::CUBIST_ABI
