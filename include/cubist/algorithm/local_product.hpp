// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Derives from the layouts of X (M, K), W (K, N) and Y (M, N) which product each rank computes
// locally, and along which axes its operands are gathered.
//
// * Each of M, K and N is a dimension of two matrices, and each of these cuts it by a list of axes.
//   The local product cuts it by the axes that both lists begin with.
// * A matrix may be cut by one more axis, inside these. An operand is gathered along it; a result
//   is reduce-scattered along it.
// * If an axis cuts the inner dimension and the result has replicas along it, the result is summed
//   along it. DistMatMul sums dW itself, so that its caller may overlap the sum with other work.
//
// Example, the cube: X rows [z y] cols [x], W rows [x z] cols [y], Y rows [z x] cols [y]. M is cut
// by z, K by x, N by y. X is gathered along y, W along z, and Y is reduce-scattered along x.

#include <cstdint>
#include <type_traits>

#include "cubist/matrix/layout.hpp"
#include "cubist/mesh/axes.hpp"

namespace cubist::CUBIST_ABI
{

/// Which dimension of a matrix a collective cuts into pieces.
enum class Dimension : std::uint8_t
{
  none,  ///< neither
  rows,
  cols  ///< its columns
};

namespace detail
{

/// Splits a tuple of axes into the axes that both tuples begin with, and the rest of the first.
template <class A, class B, class Common = Axes<>>
struct Split;
template <template <class...> class Tuple, class... A, class B, class Common>
struct Split<Tuple<A...>, B, Common>
{
  using common = Common;
  using rest = Axes<A...>;
};
template <template <class...> class TupleA, template <class...> class TupleB, class Axis,
          class... A, class... B, class... C>
struct Split<TupleA<Axis, A...>, TupleB<Axis, B...>, Axes<C...>>
    : Split<TupleA<A...>, TupleB<B...>, Axes<C..., Axis>>
{
};

/// Whether every axis of A is one of the axes of B.
template <class A, class B>
inline constexpr bool are_among = false;
template <class... A, class... B>
inline constexpr bool are_among<Axes<A...>, Axes<B...>> = (is_one_of<A, B...> && ...);

/// The role of one matrix in the product: what is gathered, scattered or summed, and along which
/// axes.
/// @tparam RowRest, ColRest the axes that cut its rows and columns further than the local product
/// does
/// @tparam Third the axes that cut the dimension that the matrix lacks
/// @tparam sums whether it is summed over its replicas when it is a result
template <class L, class RowRest, class ColRest, class Third, bool sums>
struct MatrixRole
{
  /// The dimension that the innermost axis cuts.
  static constexpr Dimension cut = RowRest::count > 0   ? Dimension::rows
                                   : ColRest::count > 0 ? Dimension::cols
                                                        : Dimension::none;
  using Along = std::conditional_t<cut == Dimension::rows, RowRest, ColRest>;
  using Replicas = std::conditional_t<sums, typename PendingAxes<L, Third>::type, Axes<>>;
  /// The axes along which this matrix communicates: the axis along which it is gathered and
  /// scattered, the axes along which it is summed, or none.
  using CollectiveAxes = std::conditional_t<cut == Dimension::none, Replicas, Along>;

  static_assert(RowRest::count + ColRest::count <= 1,
                "this layout has more than one axis after those that cut the local product, so "
                "its blocks would be gathered in the wrong order; let the axis that is gathered or "
                "scattered along be the innermost of its tuple, and the only one");
  static_assert(are_among<Along, Third>,
                "this matrix is gathered along an axis that does not cut the dimension that the "
                "matrix lacks, so all ranks along it would multiply the same; cut the other two "
                "matrices by it");
  static_assert(cut == Dimension::none || Replicas::count == 0,
                "this matrix would be scattered along one axis and summed along another, which no "
                "algorithm here does; cut it by both, or by neither");
};

/// The collectives that move a thin matrix from rows cut as `From` to rows cut as `To`, if each
/// rank along `Summed` has one term of its sum.
template <class From, class To, class Summed>
struct ThinMove
{
  using Gathered = typename Split<From, To>::rest;
  using Scattered = typename Split<To, From>::rest;
  /// The axes along which every rank gets the sum.
  using Reduced = typename PendingAxes<Layout<To, Cols<>>, Summed>::type;

  static_assert(
      Gathered::count <= 1 && Scattered::count <= 1,
      "the rows of X or Y are cut by more than one axis that does not cut the other, so a "
      "thin matrix would be gathered in the wrong order; let them differ in the innermost "
      "axis only");
  static_assert(are_among<Scattered, typename PendingAxes<Layout<Rows<>, Cols<>>, Summed>::type>,
                "the rows of the result are cut by an axis along which there is no sum, so its "
                "ranks would all have the same rows; cut the columns of the operand by it");
};

}  // namespace detail

template <class X, class W, class Y>
struct LocalProduct
{
 private:
  using XRows = detail::Split<typename X::RowAxes, typename Y::RowAxes>;
  using YRows = detail::Split<typename Y::RowAxes, typename X::RowAxes>;
  using XCols = detail::Split<typename X::ColAxes, typename W::RowAxes>;
  using WRows = detail::Split<typename W::RowAxes, typename X::ColAxes>;
  using WCols = detail::Split<typename W::ColAxes, typename Y::ColAxes>;
  using YCols = detail::Split<typename Y::ColAxes, typename W::ColAxes>;

 public:
  /// The axes that cut M.
  using M = typename XRows::common;
  /// The axes that cut K.
  using K = typename XCols::common;
  /// The axes that cut N.
  using N = typename WCols::common;

  using Input = detail::MatrixRole<X, typename XRows::rest, typename XCols::rest, N, true>;
  using Weight = detail::MatrixRole<W, typename WRows::rest, typename WCols::rest, M, false>;
  using Output = detail::MatrixRole<Y, typename YRows::rest, typename YCols::rest, K, true>;
};

}  // namespace cubist::CUBIST_ABI
