// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// How a matrix is cut, as a type, and all that follows from it.
//
// Layout<Rows<Depth, Row>, Cols<Col>>: rows are cut by Depth and, inside each piece, by Row;
// columns by Col. An axis that is not named holds a replica. The last axis of a tuple is the
// innermost: the one along which blocks can be gathered and scattered in the order of memory.

#include <cstddef>
#include <initializer_list>
#include <string>
#include <type_traits>

#include "cubist/core/block.hpp"
#include "cubist/mesh/axes.hpp"

namespace cubist
{

template <class... A>
struct Rows
{
};

template <class... A>
struct Cols
{
};

template <class R, class C>
struct Layout;

namespace detail
{

/// How often, and where, the axes of a tuple cut a dimension on a rank.
struct Cut
{
  std::size_t parts = 1;
  std::size_t index = 0;
};

template <class A, class... Axis>
Cut cut(const typename A::Array& extents, const typename A::Array& coordinates)
{
  Cut c;
  for (const std::size_t axis : std::initializer_list<std::size_t>{A::template index<Axis>()...})
  {
    const auto extent = static_cast<std::size_t>(extents[axis]);
    c.index = c.index * extent + static_cast<std::size_t>(coordinates[axis]);
    c.parts *= extent;
  }
  return c;
}

template <class... Axis>
std::string names()
{
  std::string s;
  for (const char* name : std::initializer_list<const char*>{Axis::name...})
  {
    if (!s.empty()) s += ' ';
    s += name;
  }
  return s;
}

}  // namespace detail

template <class... R, class... C>
struct Layout<Rows<R...>, Cols<C...>>
{
  using RowAxes = Rows<R...>;
  using ColAxes = Cols<C...>;

  /// Whether the layout cuts along an axis; if not, the axis holds replicas.
  template <class Axis>
  static constexpr bool cuts = is_one_of<Axis, R..., C...>;

  /// The slice of a matrix of this shape that the rank at these coordinates owns. A dimension that
  /// is cut is padded to a multiple of `quantum`.
  template <class A>
  [[nodiscard]] static Block block(Shape shape, const typename A::Array& extents,
                                   const typename A::Array& coordinates, std::size_t quantum)
  {
    const auto rows = detail::cut<A, R...>(extents, coordinates);
    const auto cols = detail::cut<A, C...>(extents, coordinates);
    const auto padded = [&](std::size_t n, bool is_cut) { return is_cut ? pad(n, quantum) : n; };
    return {block_range(shape.rows, padded(shape.rows, sizeof...(R) > 0), rows.parts, rows.index),
            block_range(shape.cols, padded(shape.cols, sizeof...(C) > 0), cols.parts, cols.index)};
  }

  /// Whether the rank at these coordinates is the first of the replicas of its block.
  template <class A>
  [[nodiscard]] static bool is_primary(const typename A::Array& coordinates)
  {
    auto rest = coordinates;
    ((rest[A::template index<R>()] = 0), ...);
    ((rest[A::template index<C>()] = 0), ...);
    for (const int c : rest)
      if (c != 0) return false;
    return true;
  }

  /// "rows [depth row] cols [col]", for messages.
  [[nodiscard]] static std::string to_string()
  {
    return "rows [" + detail::names<R...>() + "] cols [" + detail::names<C...>() + "]";
  }
};

/// The vector that is added to every row of a matrix of layout `L`, or summed over its rows: (1,
/// N), cut as the columns are.
template <class L>
using RowVector = Layout<Rows<>, typename L::ColAxes>;

namespace detail
{
template <class L>
struct Transpose;
template <class... R, class... C>
struct Transpose<Layout<Rows<R...>, Cols<C...>>>
{
  using type = Layout<Rows<C...>, Cols<R...>>;
};
}  // namespace detail

/// How the transpose of a matrix of layout `L` is cut, each rank holding the transpose of its
/// block.
template <class L>
using Transposed = typename detail::Transpose<L>::type;

/// The axes of `Cut` along which layout `L` holds replicas: `Call` is called with them as template
/// arguments. A sum over the dimension that `Cut` cuts has a part on each of these replicas, so
/// these are the axes that the gradient of a parameter of layout `L` is all-reduced along.
template <class L, class Cut>
struct PendingAxes;

namespace detail
{
template <class Done, class L, class... A>
struct Pending;

template <class... Done, class L>
struct Pending<Axes<Done...>, L>
{
  using type = Axes<Done...>;
};

template <class... Done, class L, class A, class... Rest>
struct Pending<Axes<Done...>, L, A, Rest...>
    : Pending<std::conditional_t<L::template cuts<A>, Axes<Done...>, Axes<Done..., A>>, L, Rest...>
{
};
}  // namespace detail

template <class L, class... A>
struct PendingAxes<L, Rows<A...>> : detail::Pending<Axes<>, L, A...>
{
};

namespace detail
{
template <class Got, class Wanted>
constexpr void require_layout()
{
  static_assert(std::is_same_v<Got, Wanted>,
                "this matrix has layout Got, where layout Wanted is needed, so blocks would be "
                "multiplied that do not belong together; make or scatter it with layout Wanted");
}
}  // namespace detail

}  // namespace cubist
