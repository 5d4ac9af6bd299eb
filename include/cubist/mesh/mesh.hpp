// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A mesh: the ranks of a communicator on the axes of a scheme, with one communicator along each
// axis and along each set of axes that is asked for.
//
// `AxisMesh` is the mesh proper, which all schemes on the same axes share; `Mesh` knows the scheme
// as well, and so what extents it allows. Both are handles: a copy is the same mesh.

#include <array>
#include <concepts>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "cubist/comm/communicator.hpp"
#include "cubist/core/error.hpp"
#include "cubist/mesh/axes.hpp"

namespace cubist
{

template <class A, class B>
class AxisMesh
{
 public:
  using Axes = A;
  using Array = typename A::Array;
  using Communicator = typename B::Communicator;
  using Engine = typename B::Engine;

  /// Every rank of `world` calls this. Every cut dimension is padded to a multiple of `quantum`.
  /// @throws MeshError unless the extents are positive and multiply up to the ranks of the world
  AxisMesh(const Communicator& world, const Array& extents, std::size_t quantum)
      : state_{std::make_shared<State>(world, extents, quantum)}
  {
    for (const int e : extents)
      require<MeshError>(e >= 1, "got the extents ", A::to_string(extents),
                         ", but an axis has at least one rank; use positive extents");
    require<MeshError>(A::ranks(extents) == world.size(), "got the extents ", A::to_string(extents),
                       ", which make ", A::ranks(extents), " ranks, but the world has ",
                       world.size(),
                       ", so ranks would be left out or missing; use extents that "
                       "multiply up to it");
    state_->coordinates = A::coordinates(world.rank(), extents);
    for (std::size_t i = 0; i < A::count; ++i) group(1U << i);
  }

  [[nodiscard]] Communicator& world() const { return state_->world; }
  [[nodiscard]] const Engine& engine() const { return state_->engine; }
  [[nodiscard]] int rank() const { return state_->world.rank(); }
  [[nodiscard]] int size() const { return state_->world.size(); }
  [[nodiscard]] std::size_t quantum() const { return state_->quantum; }
  [[nodiscard]] const Array& extents() const { return state_->extents; }
  [[nodiscard]] const Array& coordinates() const { return state_->coordinates; }
  [[nodiscard]] Array coordinates(int rank) const { return A::coordinates(rank, state_->extents); }

  template <class Axis>
  [[nodiscard]] int extent() const
  {
    return state_->extents[A::template index<Axis>()];
  }
  template <class Axis>
  [[nodiscard]] int coordinate() const
  {
    return state_->coordinates[A::template index<Axis>()];
  }

  /// The ranks that differ from this one only along these axes, in the order of the mesh. The first
  /// time that a set of several axes is asked for, every rank of the mesh must ask for it.
  template <class... Axis>
  [[nodiscard]] Communicator& along() const
  {
    return group((0U | ... | (1U << A::template index<Axis>())));
  }

  /// Whether two handles are the same mesh.
  friend bool operator==(const AxisMesh& a, const AxisMesh& b) { return a.state_ == b.state_; }

 private:
  struct State
  {
    State(const Communicator& w, const Array& e, std::size_t q) : world{w}, extents{e}, quantum{q}
    {
    }

    Communicator world;
    Engine engine;
    Array extents;
    Array coordinates{};
    std::size_t quantum;
    std::map<unsigned, Communicator> groups;
  };

  Communicator& group(unsigned axes) const
  {
    const auto found = state_->groups.find(axes);
    if (found != state_->groups.end()) return found->second;
    Array rest = state_->coordinates;
    for (std::size_t i = 0; i < A::count; ++i)
      if ((axes & (1U << i)) != 0) rest[i] = 0;
    const int colour = A::rank(rest, state_->extents);
    return state_->groups.emplace(axes, state_->world.split(colour, rank())).first->second;
  }

  std::shared_ptr<State> state_;
};

/// What a mesh needs to know of a scheme.
// clang-format off
template <class S>
concept MeshShape = requires(typename S::Extents wish, typename S::Axes::Array extents) {
  { S::extents(wish, 8) } -> std::same_as<typename S::Axes::Array>;  // @throws MeshError
  { S::quantum(extents) } -> std::same_as<std::size_t>;
};
// clang-format on

template <MeshShape S, class B>
class Mesh : public AxisMesh<typename S::Axes, B>
{
 public:
  using Scheme = S;

  /// Extents that are left out follow from the number of ranks. Every rank of `world` calls this.
  /// @throws MeshError for extents that do not fit the scheme or the ranks; it names some that do
  explicit Mesh(const typename B::Communicator& world, const typename S::Extents& wish = {})
      : Mesh{S::extents(wish, world.size()), world}
  {
  }

 private:
  // In another order than above, lest clang 14 takes {.q = 2} inside a template for an array.
  Mesh(const typename S::Axes::Array& extents, const typename B::Communicator& world)
      : AxisMesh<typename S::Axes, B>{world, extents, S::quantum(extents)}
  {
  }
};

}  // namespace cubist
