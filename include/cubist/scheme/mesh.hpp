// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The mesh of a scheme: an AxisMesh whose extents the scheme has checked, or completed from the
// number of ranks.

#include <concepts>
#include <cstddef>

#include "cubist/comm/communicator.hpp"
#include "cubist/core/error.hpp"
#include "cubist/mesh/mesh.hpp"

namespace cubist::CUBIST_ABI
{

/// The part of a scheme that a mesh uses.
// clang-format off
template <class S>
concept MeshShape = requires(typename S::Extents requested, typename S::Axes::Array extents) {
  { S::extents(requested, 8) } -> std::same_as<typename S::Axes::Array>;  // @throws MeshError
  { S::quantum(extents) } -> std::same_as<std::size_t>;
};

/// The planner's choice of a scheme and its extents. Argument-dependent lookup finds a function
/// `extents_of<S>(plan)`.
template <class P>
concept MeshPlan = requires(const P& plan) { plan.scheme.size(); plan.extents.size(); };
// clang-format on

template <MeshShape S, BackendWithItsHeader B>
class Mesh : public AxisMesh<typename S::Axes, B>
{
 public:
  using Scheme = S;

  /// Makes a mesh of all ranks. Extents that are left out follow from the number of ranks. Every
  /// rank of `world` calls this.
  /// @throws MeshError for extents that do not fit the scheme or the ranks; it names some that do
  explicit Mesh(const typename B::Communicator& world, const typename S::Extents& requested = {})
      : Mesh{world, S::extents(requested, world.size()), IdleRanks::refused}
  {
  }

  /// Makes a mesh of named extents that may leave ranks idle. With IdleRanks::allowed it takes as
  /// many of the ranks as the scheme has a mesh for. A list without names, such as {2, 2}, gives
  /// the exact extents.
  /// @throws MeshError for extents that do not fit the scheme, or need more ranks
  template <std::same_as<typename S::Extents> E = typename S::Extents>
  Mesh(const typename B::Communicator& world, const E& requested, IdleRanks idle)
      : Mesh{world, most_extents(requested, world.size(), idle), idle}
  {
  }

  /// Makes a mesh of exactly these extents, which may leave ranks idle. Without the third argument
  /// clang 14 would parse {.q = 2} inside a template as an array.
  /// @pre the scheme allows the extents
  /// @throws MeshError unless they are positive and fit the ranks
  Mesh(const typename B::Communicator& world, const typename S::Axes::Array& extents,
       IdleRanks idle)
      : AxisMesh<typename S::Axes, B>{world, extents, S::quantum(extents), idle}
  {
  }

  /// Makes the mesh of a plan (plan/plan.hpp); ranks that the plan does not use are idle.
  /// @throws MeshError for the plan of another scheme, or of more ranks
  template <MeshPlan P>
  Mesh(const typename B::Communicator& world, const P& plan)
      : Mesh{world, extents_of<S>(plan), IdleRanks::allowed}
  {
  }

 private:
  static typename S::Axes::Array most_extents(const typename S::Extents& requested, int ranks,
                                              IdleRanks idle)
  {
    const int least = idle == IdleRanks::allowed ? 1 : ranks;
    for (int n = ranks; n >= least; --n)
    {
      try
      {
        return S::extents(requested, n);
      }
      catch (const MeshError&)
      {
        continue;  // the scheme has no mesh of this many ranks: leave one more idle
      }
    }
    return S::extents(requested, ranks);  // throws, and names extents that fit
  }
};

}  // namespace cubist::CUBIST_ABI
