// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Completes a partial matrix, which is a sum of parts on the ranks along an axis.
//
//   parts: rows [r] cols [c] partial [a]
//
//   sum: rows [r] cols [c]      all_reduce along a
//        rows [r a] cols [c]    reduce_scatter of the blocks of rows along a
//        rows [r] cols [c a]    reduce_scatter of the blocks of columns, packed one after the other
//
// A dimension that is cut in the sum but not in the parts is padded before the reduce_scatter.
//
// Elements that one rank sends, for P ranks along a: all_reduce 2 (P-1)/P of the parts' block;
// reduce_scatter (P-1)/P of it, padded like the sum's blocks.

#include <cstddef>
#include <type_traits>

#include "cubist/core/error.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/matrix/dist_matrix.hpp"
#include "cubist/matrix/layout.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

/// The collective that forms the sum.
enum class SumMethod
{
  none,
  all_reduce,
  scatter_rows,
  scatter_cols
};

/// The method for parts of layout P and a sum of layout L.
template <class P, class L>
inline constexpr SumMethod sum_method = SumMethod::none;
template <class R, class C, class A, class... Rest>
inline constexpr SumMethod sum_method<Layout<R, C, Partial<A, Rest...>>, Layout<R, C>> =
    SumMethod::all_reduce;
template <class... R, class C, class A>
inline constexpr SumMethod sum_method<Layout<Rows<R...>, C, Partial<A>>, Layout<Rows<R..., A>, C>> =
    SumMethod::scatter_rows;
template <class R, class... C, class A>
inline constexpr SumMethod sum_method<Layout<R, Cols<C...>, Partial<A>>, Layout<R, Cols<C..., A>>> =
    SumMethod::scatter_cols;

/// Sums the parts of all ranks, and leaves each rank its rows or columns of the sum.
/// @param part, block  this rank's padded blocks of the parts and of the sum
/// @param cut_before  whether the parts' rows or columns are cut, too
/// @throws MeshError if such blocks do not fill those of the parts
template <bool by_rows, class E, class C, Scalar T>
void scatter_sum(const E& engine, C& ranks, MatrixView<const T> part, MatrixView<T> block,
                 bool cut_before)
{
  const auto count = static_cast<std::size_t>(ranks.size());
  const std::size_t whole = by_rows ? part.rows() : part.cols();
  const std::size_t piece = by_rows ? block.rows() : block.cols();
  require<MeshError>(!cut_before || whole == count * piece, "got parts in blocks of ", whole,
                     " rows or columns, but the sum has ", count, " blocks of ", piece,
                     ", which do not fill them; create the mesh with a quantum that is "
                     "a multiple of the ranks that cut the sum");
  typename E::template Buffer<T> buffer(count * block.size());
  const MatrixView<T> pieces{buffer.data(), {count * block.rows(), block.cols()}};
  if constexpr (by_rows)
    engine.copy(part, pieces.block(0, 0, part.shape()));
  else
    for (std::size_t i = 0; i < count; ++i)
    {
      const Range cols = block_range(whole, count * piece, count, i);
      const Shape shape{block.rows(), cols.valid};
      engine.copy(part.block(0, cols.offset, shape), pieces.block(i * block.rows(), 0, shape));
    }
  ranks.reduce_scatter(pieces.elements(), block.elements());
}

}  // namespace detail

/// Sets `sum` to the sum of the parts of all ranks along P's partial axes. All ranks of the mesh
/// call it. The assignment `sum = parts` does the same.
/// @throws ShapeError for unequal shapes; MeshError for unequal meshes, or for a mesh whose quantum
/// is not a multiple of the number of ranks that cut the sum's rows and of those that cut its
/// columns
template <Scalar T, class P, class L, class M>
void sum_partial(const DistMatrix<T, P, M>& parts, DistMatrix<T, L, M>& sum)
{
  using detail::SumMethod;
  constexpr SumMethod how = detail::sum_method<P, L>;
  static_assert(
      how != SumMethod::none,
      "these parts have a layout whose sum cannot have this other layout, because a sum is "
      "replicated along its Partial axes, or cut innermost by its only Partial axis; sum them to "
      "the parts' layout without Partial, or with that axis last in Rows or in Cols");
  require<ShapeError>(parts.shape() == sum.shape(), "got parts of a matrix of ", parts.shape(),
                      " for a sum of ", sum.shape(),
                      ", so their elements do not correspond; give both the same shape");
  require<MeshError>(parts.mesh() == sum.mesh(), "got parts of a matrix of ", parts.shape(),
                     " on a different mesh from their sum, so other ranks hold its blocks; create "
                     "both on the same mesh");
  const auto& engine = sum.mesh().engine();
  auto& ranks = detail::along_axes(sum.mesh(), typename P::PartialAxes{});
  const MatrixView<const T> part = parts.padded();
  const MatrixView<T> block = sum.padded();

  if constexpr (how == SumMethod::all_reduce)
  {
    engine.copy(part, block);
    ranks.all_reduce(block.elements());
  }
  else
  {
    constexpr bool by_rows = how == SumMethod::scatter_rows;
    constexpr bool cut_before = by_rows ? !std::is_same_v<typename P::RowAxes, Rows<>>
                                        : !std::is_same_v<typename P::ColAxes, Cols<>>;
    detail::scatter_sum<by_rows>(engine, ranks, part, block, cut_before);
  }
}

}  // namespace cubist::CUBIST_ABI
