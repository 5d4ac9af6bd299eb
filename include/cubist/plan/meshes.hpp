// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Lists the meshes of a scheme up to a number of ranks, finds the one nearest to requested extents,
// and checks extents that a user lists.

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "cubist/core/error.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{
template <class S, class F>
void for_each_mesh(int most, typename S::Axes::Array& extents, std::size_t axis, F& f)
{
  if (axis == extents.size())
  {
    if (S::fits(extents)) f(std::as_const(extents));
    return;
  }
  for (int e = 1; e <= most; ++e)
  {
    extents[axis] = e;
    for_each_mesh<S>(most / e, extents, axis + 1, f);
  }
}
}  // namespace detail

/// Calls f(extents) for every mesh of scheme `S` with at most this many ranks.
template <NetworkScheme S, class F>
void for_each_mesh(int most, F&& f)
{
  typename S::Axes::Array extents{};
  detail::for_each_mesh<S>(most, extents, 0, f);
}

/// Returns the mesh of scheme `S` with at most as many ranks whose extents are nearest to these.
template <NetworkScheme S>
[[nodiscard]] typename S::Axes::Array nearest_mesh(const typename S::Axes::Array& requested)
{
  constexpr int most = 4096;
  int ranks = 1;
  for (const int e : requested) ranks = std::min(most, ranks * std::clamp(e, 1, most));
  typename S::Axes::Array nearest{};
  int least = 0;
  for_each_mesh<S>(ranks, [&](const typename S::Axes::Array& extents) {
    int distance = 1;
    for (std::size_t i = 0; i < requested.size(); ++i)
      distance += std::abs(std::clamp(requested[i], 1, most) - extents[i]);
    if (least != 0 && distance >= least) return;
    least = distance;
    nearest = extents;
  });
  return nearest;
}

/// @throws MeshError for extents that scheme `S` cannot have
template <NetworkScheme S>
void require_fit(const typename S::Axes::Array& extents)
{
  if (S::fits(extents)) return;
  throw MeshError{std::string{"got the extents "} + S::Axes::to_string(extents) + " for " +
                  S::name + ", which has no such mesh; use the nearest, " +
                  S::Axes::to_string(nearest_mesh<S>(extents)) + ", or let the planner choose"};
}

/// Returns a user's list as the extents of scheme `S`, one for each axis.
/// @throws MeshError if the list is too short or too long, or if scheme `S` cannot have these
/// extents
template <NetworkScheme S>
[[nodiscard]] typename S::Axes::Array extents_from_list(const std::vector<int>& list)
{
  typename S::Axes::Array extents{};
  require<MeshError>(list.size() == extents.size(), "got a mesh of ", list.size(), " extents for ",
                     S::name, ", which has ", extents.size(),
                     " axes, so it is unclear which is which; give one extent for each axis, or "
                     "leave the mesh out");
  std::copy(list.begin(), list.end(), extents.begin());
  require_fit<S>(extents);
  return extents;
}

}  // namespace cubist::CUBIST_ABI
