// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The axes of a mesh, as types, and the coordinates of ranks along them.

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <limits>
#include <string>

#include "cubist/version.hpp"

namespace cubist::CUBIST_ABI
{

// clang-format off
/// The axis in front of a scheme's axes, along which rows are cut and weights are replicated.
struct Data
{
  static constexpr const char* name = "data";
};
/// The stages of a pipeline, each of which holds some of a network's layers.
struct PipelineStage
{
  static constexpr const char* name = "stage";
};
/// The layers of a 2.5D mesh, along which weights are replicated.
struct Depth
{
  static constexpr const char* name = "depth";
};
/// The first axis of a 2D mesh: rows of ranks.
struct Row
{
  static constexpr const char* name = "row";
};
/// The second axis of a 2D mesh: columns of ranks.
struct Col
{
  static constexpr const char* name = "col";
};
/// The first axis of a grid.
struct AxisX
{
  static constexpr const char* name = "x";
};
/// The second axis of a grid.
struct AxisY
{
  static constexpr const char* name = "y";
};
/// The third axis of a grid.
struct AxisZ
{
  static constexpr const char* name = "z";
};
/// The axis of a 1D mesh.
struct Tensor
{
  static constexpr const char* name = "tensor";
};
// clang-format on

/// Whether A is in the list.
template <class A, class... List>
inline constexpr bool is_one_of = (std::same_as<A, List> || ...);

/// The axes of a mesh; the last one varies fastest in the numbering of ranks.
template <class... A>
struct Axes
{
  /// The number of axes.
  static constexpr std::size_t count = sizeof...(A);
  /// One number for each axis, in the order of the axes.
  using Array = std::array<int, count>;

  /// Whether `Axis` is one of the axes.
  template <class Axis>
  static constexpr bool has = is_one_of<Axis, A...>;

  /// The place of `Axis` among the axes.
  template <class Axis>
  requires has<Axis>
  static constexpr std::size_t index()
  {
    constexpr bool match[] = {std::same_as<Axis, A>...};
    std::size_t i = 0;
    while (!match[i]) ++i;
    return i;
  }

  /// A set of these axes: bit i is axis i.
  template <class... Axis>
  static constexpr unsigned bits = (0U | ... | (1U << index<Axis>()));

  /// The product of the extents, at most the largest int.
  [[nodiscard]] static constexpr int ranks(const Array& extents)
  {
    constexpr long long most = std::numeric_limits<int>::max();
    long long n = 1;
    for (const int e : extents) n = std::min(n * e, most);
    return static_cast<int>(n);
  }

  [[nodiscard]] static constexpr int rank(const Array& coordinates, const Array& extents)
  {
    int r = 0;
    for (std::size_t i = 0; i < count; ++i) r = r * extents[i] + coordinates[i];
    return r;
  }

  /// The coordinates of `rank`.
  [[nodiscard]] static constexpr Array coordinates(int rank, const Array& extents)
  {
    Array c{};
    for (std::size_t i = count; i-- > 0; rank /= extents[i]) c[i] = rank % extents[i];
    return c;
  }

  /// The name of an axis, such as "depth".
  /// @pre i < count
  [[nodiscard]] static constexpr const char* name(std::size_t i)
  {
    constexpr const char* names[] = {A::name...};
    return names[i];
  }

  /// Returns the axes and their extents as text for messages: "depth 2 x row 2 x col 2".
  [[nodiscard]] static std::string to_string(const Array& extents)
  {
    std::string s;
    for (std::size_t i = 0; i < count; ++i)
    {
      if (i > 0) s += " x ";
      s += name(i);
      s += ' ' + std::to_string(extents[i]);
    }
    return s;
  }
};

}  // namespace cubist::CUBIST_ABI
