// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Layouts: types that say how a matrix is cut.
//
// Layout<Rows<Depth, Row>, Cols<Col>>: rows are cut by Depth and, inside each piece, by Row;
// columns by Col. Ranks along an axis that is not named hold replicas. The last axis of a tuple is
// the innermost: blocks can be gathered and scattered along it in memory order.
//
// Layout<Rows<Row>, Cols<>, Partial<Col>>: a sum along Col is pending. Each rank along Col holds
// one term of the same block, and the matrix is the sum of the terms (matrix/sum_partial.hpp).

#include <cstddef>
#include <numeric>
#include <string>
#include <type_traits>

#include "cubist/core/block.hpp"
#include "cubist/mesh/axes.hpp"

namespace cubist::CUBIST_ABI
{

/// The axes that cut the rows; the last is the innermost.
template <class... A>
struct Rows
{
};

/// The axes that cut the columns; the last is the innermost.
template <class... A>
struct Cols
{
};

/// The axes along which a sum is pending.
template <class... A>
struct Partial
{
};

template <class R, class C, class P = Partial<>>
struct Layout;

namespace detail
{

/// A dimension cut by a tuple of axes: the number of parts, and the index of a rank's part.
struct Cut
{
  std::size_t parts = 1;
  std::size_t index = 0;
  std::size_t batches = 1;  // the number of batches along Data, each of parts / batches parts

  /// @param quantum the quantum of each batch
  [[nodiscard]] std::size_t padded(std::size_t n, std::size_t quantum) const
  {
    return pad(n, batches * std::lcm(quantum, parts / batches));
  }
};

/// A tuple of axes by their numbers in a mesh, so that one function serves all layouts.
struct AxisNumbers
{
  const std::size_t* first;
  std::size_t count;
  std::size_t data;  // the number of Data, or `none` if the tuple does not have it

  static constexpr auto none = static_cast<std::size_t>(-1);
};

template <class A, class... Axis>
inline constexpr std::size_t axis_numbers[] = {A::template index<Axis>()..., AxisNumbers::none};

template <class A, class... Axis>
[[nodiscard]] constexpr AxisNumbers find_numbers()
{
  if constexpr (is_one_of<Data, Axis...>)
    return {axis_numbers<A, Axis...>, sizeof...(Axis), A::template index<Data>()};
  else
    return {axis_numbers<A, Axis...>, sizeof...(Axis), AxisNumbers::none};
}
template <class A, class... Axis>
inline constexpr AxisNumbers numbers_of = find_numbers<A, Axis...>();

/// @param extents, coordinates  a number for each axis of the mesh
[[nodiscard]] inline Cut cut_by(const AxisNumbers& axes, const int* extents, const int* coordinates)
{
  Cut c;
  for (std::size_t i = 0; i < axes.count; ++i)
  {
    const auto extent = static_cast<std::size_t>(extents[axes.first[i]]);
    c.index = c.index * extent + static_cast<std::size_t>(coordinates[axes.first[i]]);
    c.parts *= extent;
  }
  if (axes.data != AxisNumbers::none) c.batches = static_cast<std::size_t>(extents[axes.data]);
  return c;
}

template <class A, class... Axis>
Cut cut(const typename A::Array& extents, const typename A::Array& coordinates)
{
  return cut_by(numbers_of<A, Axis...>, extents.data(), coordinates.data());
}

/// Returns the block of a matrix whose rows and columns are cut by these axes.
[[nodiscard]] inline Block block_by(Shape shape, const AxisNumbers& rows, const AxisNumbers& cols,
                                    const int* extents, const int* coordinates, Quanta quanta)
{
  const auto range = [&](std::size_t n, const AxisNumbers& axes, std::size_t quantum) {
    const Cut c = cut_by(axes, extents, coordinates);
    return block_range(n, axes.count > 0 ? c.padded(n, quantum) : n, c.parts, c.index);
  };
  return {range(shape.rows, rows, quanta.rows), range(shape.cols, cols, quanta.cols)};
}

/// Returns the communicator along the axes of a tuple: Rows<A...>, Cols<A...>, Partial<A...> or
/// Axes<A...>.
template <class M, template <class...> class Tuple, class... A>
[[nodiscard]] auto& along_axes(const M& mesh, Tuple<A...>)
{
  return mesh.template along<A...>();
}

/// The axes of a tuple as bits (Axes::bits).
template <class A, template <class...> class Tuple, class... Axis>
[[nodiscard]] constexpr unsigned bits_of(Tuple<Axis...>)
{
  return A::template bits<Axis...>;
}

/// Returns the communicator along these axes, or null if this rank is alone on them. The first call
/// is collective.
/// @param axes  as bits
template <class M>
[[nodiscard]] typename M::Communicator* replicas_along(const M& mesh, unsigned axes)
{
  bool any = false;
  for (std::size_t i = 0; i < M::Axes::count; ++i)
    any = any || ((axes & (1U << i)) != 0 && mesh.extents()[i] > 1);
  return any && mesh.active() ? &mesh.along(axes) : nullptr;
}
template <class M, class... A>
[[nodiscard]] typename M::Communicator* replicas_along(const M& mesh, Axes<A...>)
{
  return replicas_along(mesh, M::Axes::template bits<A...>);
}

template <class... Axis>
std::string names()
{
  std::string s;
  ((s += s.empty() ? "" : " ", s += Axis::name), ...);
  return s;
}

template <class Got, class Wanted>
constexpr void require_layout()
{
  static_assert(
      std::is_same_v<Got, Wanted>,
      "this matrix has layout Got, where layout Wanted is needed, so the blocks of a rank "
      "would not correspond; create or scatter it with layout Wanted; or, if it is the "
      "output of a layer of scheme S, give the next layer the scheme S::Next, or pass "
      "redistribute<Wanted>(matrix, mesh)");
}

template <class L>
inline constexpr bool is_layout = requires
{
  L::is_partial;
};

template <class L>
constexpr void require_not_partial()
{
  if constexpr (is_layout<L>)
    static_assert(!L::is_partial,
                  "this matrix has a layout with Partial, so its ranks hold parts of a sum and not "
                  "its elements; complete it first: assign it to a matrix whose layout has no "
                  "Partial, sum = parts");
}

}  // namespace detail

template <class... R, class... C, class... P>
struct Layout<Rows<R...>, Cols<C...>, Partial<P...>>
{
  /// The layout in which each rank holds the transpose of its block.
  using Transpose = Layout<Rows<C...>, Cols<R...>, Partial<P...>>;

  static_assert((!is_one_of<P, R..., C...> && ...),
                "this layout has parts of a sum along an axis that it cuts, so the parts would "
                "belong to different blocks; name the axis once");

  /// The axes that cut the rows.
  using RowAxes = Rows<R...>;
  /// The axes that cut the columns.
  using ColAxes = Cols<C...>;
  /// The axes that cut rows or columns.
  using CutAxes = Axes<R..., C...>;
  /// The axes along which a sum is pending.
  using PartialAxes = Partial<P...>;

  /// Whether ranks hold parts of a sum instead of elements of the matrix.
  static constexpr bool is_partial = sizeof...(P) > 0;

  /// Whether the layout cuts along an axis; if not, its ranks hold replicas.
  template <class Axis>
  static constexpr bool cuts = is_one_of<Axis, R..., C...>;

  /// The number of parts into which columns are cut on a mesh of these extents.
  template <class A>
  [[nodiscard]] static std::size_t col_parts(const typename A::Array& extents)
  {
    return detail::cut<A, C...>(extents, {}).parts;
  }

  /// Returns the block of a matrix of this shape that the rank at these coordinates holds. A
  /// dimension that is cut is padded to a multiple of its quantum and of its number of parts. If it
  /// is cut along Data, each batch is padded in this way.
  template <class A>
  [[nodiscard]] static Block block(Shape shape, const typename A::Array& extents,
                                   const typename A::Array& coordinates, Quanta quanta)
  {
    return detail::block_by(shape, detail::numbers_of<A, R...>, detail::numbers_of<A, C...>,
                            extents.data(), coordinates.data(), quanta);
  }

  /// Whether the rank at these coordinates holds the first replica of its block or term.
  template <class A>
  [[nodiscard]] static bool is_primary(const typename A::Array& coordinates)
  {
    for (std::size_t i = 0; i < A::count; ++i)
      if ((A::template bits<R..., C..., P...> & (1U << i)) == 0 && coordinates[i] != 0)
        return false;
    return true;
  }

  /// Returns "rows [depth row] cols [col]", followed by " partial [z]" if it is partial.
  [[nodiscard]] static std::string to_string()
  {
    const std::string blocks =
        "rows [" + detail::names<R...>() + "] cols [" + detail::names<C...>() + "]";
    return is_partial ? blocks + " partial [" + detail::names<P...>() + "]" : blocks;
  }
};

/// The layout of a row vector (1, N) that is added to the rows of a matrix of layout `L`, or is
/// their sum. It is cut like the columns.
template <class L>
using RowVector = Layout<Rows<>, typename L::ColAxes>;

/// The layout of the transpose of a matrix of layout `L`; each rank holds the transpose of its
/// block.
template <class L>
using Transposed = typename L::Transpose;

/// Finds the axes of `Cut`, which is Rows<A...> or Axes<A...>, along which layout `L` holds
/// replicas. In a sum over the dimension that `Cut` cuts, each of these replicas holds one term, so
/// the gradient of a parameter of layout `L` is all-reduced along `type`.
template <class L, class Cut, class Found = Axes<>>
struct PendingAxes
{
  using type = Found;
};
template <class L, template <class...> class Cut, class A, class... Rest, class... Found>
struct PendingAxes<L, Cut<A, Rest...>, Axes<Found...>>
    : PendingAxes<L, Cut<Rest...>,
                  std::conditional_t<L::template cuts<A>, Axes<Found...>, Axes<Found..., A>>>
{
};

}  // namespace cubist::CUBIST_ABI
