// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A mesh arranges the ranks of a communicator on the axes of a scheme, with a communicator along
// each axis and, on request, along each set of axes. A mesh may leave the last ranks of its parent
// communicator idle: these hold no elements, and take no part in collective calls (see `active()`).
//
// `AxisMesh` is for any scheme with these axes; `Mesh` (scheme/mesh.hpp) checks its extents for one
// scheme. Both are handles: a copy refers to the same mesh.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "cubist/comm/communicator.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/float16.hpp"
#include "cubist/core/instances.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/mesh/axes.hpp"

namespace cubist::CUBIST_ABI
{

/// Whether a mesh may have fewer ranks than its parent communicator.
enum class IdleRanks : bool
{
  refused,  ///< every rank must be on the mesh
  allowed   ///< the ranks that are left over do nothing
};

namespace detail
{

/// What the handles of a mesh share.
template <class A, class B>
struct MeshState
{
  using Communicator = typename B::Communicator;
  using Array = typename A::Array;
  template <class V>
  using Buffers = std::vector<typename B::Engine::template Buffer<V>>;

  Communicator parent;
  Communicator world;  // on an idle rank, the idle ranks
  Array extents;
  std::size_t quantum;
  typename B::Engine engine{};
  Array coordinates{};
  std::array<std::optional<Communicator>, 1U << A::count> groups{};  // by the bits of their axes
  std::tuple<Buffers<int>, Buffers<std::int64_t>, Buffers<float>, Buffers<double>, Buffers<half>,
             Buffers<bfloat16>>
      unused_buffers{};
  bool elsewhere = false;  // the mesh consists of other ranks; this one is not on it

  [[nodiscard]] bool active() const { return !elsewhere && parent.rank() < A::ranks(extents); }

  /// @throws MeshError on an idle rank
  [[nodiscard]] Communicator& active_world()
  {
    require<MeshError>(active(), "rank ", parent.rank(), " made a collective call on a mesh of ",
                       A::ranks(extents), " ranks, but it is idle there; check active() first");
    return world;
  }
};

/// Returns the communicator of the ranks whose coordinates differ from this rank's only along these
/// axes; each bit of `axes` is an axis.
template <class A, class B, class C = typename B::Communicator>
C& group_of_axes(MeshState<A, B>& mesh, unsigned axes)
{
  auto& found = mesh.groups[axes];
  if (found) return *found;
  const auto colour_of = [&mesh, axes](int rank) {
    auto rest = A::coordinates(rank, mesh.extents);
    for (std::size_t i = 0; i < A::count; ++i)
      if ((axes & (1U << i)) != 0) rest[i] = 0;
    return A::rank(rest, mesh.extents);
  };
  return found.emplace(split_by(mesh.active_world(), colour_of));
}

/// Checks the extents of a mesh.
/// @throws MeshError unless they are positive, and their product is the number of the parent's
/// ranks, or less if ranks may be idle
template <class A>
void require_extents(const typename A::Array& extents, int parent, IdleRanks idle)
{
  for (const int e : extents)
    require<MeshError>(e >= 1, "got the extents ", A::to_string(extents),
                       ", but an axis needs at least one rank; use positive extents");
  const int ranks = A::ranks(extents);
  require<MeshError>(ranks == parent || idle == IdleRanks::allowed, "got the extents ",
                     A::to_string(extents), ", which need ", ranks, " ranks, but the world has ",
                     parent,
                     ", so ranks would be left out or missing; use extents whose "
                     "product is the number of ranks");
  require<MeshError>(ranks <= parent, "got the extents ", A::to_string(extents), ", which need ",
                     ranks, " ranks, but the world has ", parent,
                     ", so ranks would be missing; use extents with a smaller product");
}

/// Makes a mesh of the first ranks of `parent`, with a communicator along each axis. Every rank of
/// `parent` calls this.
template <class A, class B, class C>
std::shared_ptr<MeshState<A, B>> make_mesh_state(const C& parent, const typename A::Array& extents,
                                                 std::size_t quantum, IdleRanks idle)
{
  require_extents<A>(extents, parent.size(), idle);
  C all{parent};
  const int ranks = A::ranks(extents);
  if (ranks < all.size()) all = split_by(all, [ranks](int rank) { return rank < ranks ? 0 : 1; });
  const auto state = std::make_shared<MeshState<A, B>>(
      MeshState<A, B>{.parent = parent, .world = all, .extents = extents, .quantum = quantum});
  if (!state->active()) return state;
  state->coordinates = A::coordinates(parent.rank(), extents);
  for (std::size_t i = 0; i < A::count; ++i) group_of_axes(*state, 1U << i);
  return state;
}

}  // namespace detail

/// The ranks of a communicator on axes A, with a communicator along each axis.
template <class A, class B>
class AxisMesh
{
 public:
  using Axes = A;
  using Backend = B;  ///< the backend of the communicators and the engine
  /// One number for each axis, in the order of the axes.
  using Array = typename A::Array;
  using Communicator = typename B::Communicator;
  using Engine = typename B::Engine;

  /// Makes a mesh of the first ranks of `parent`, as many as the product of the extents; the others
  /// are idle, if that is allowed. Every rank of `parent` calls this. Every cut dimension is padded
  /// to a multiple of `quantum`.
  /// @throws MeshError unless the extents are positive, and their product is the number of the
  /// parent's ranks, or less if ranks may be idle
  AxisMesh(const Communicator& parent, const Array& extents, std::size_t quantum,
           IdleRanks idle = IdleRanks::refused)
      : state_{detail::make_mesh_state<A, B>(parent, extents, quantum, idle)}
  {
  }

  /// Makes a mesh of other ranks. This rank is idle on it, holds no elements, and sends nothing.
  /// Matrices on it tell which blocks the other ranks hold.
  [[nodiscard]] static AxisMesh elsewhere(const Communicator& parent, const Array& extents,
                                          std::size_t quantum)
  {
    AxisMesh mesh;
    mesh.state_ =
        std::make_shared<detail::MeshState<A, B>>(detail::MeshState<A, B>{.parent = parent,
                                                                          .world = parent,
                                                                          .extents = extents,
                                                                          .quantum = quantum,
                                                                          .elsewhere = true});
    return mesh;
  }

  /// The ranks of the mesh.
  /// @throws MeshError on an idle rank
  [[nodiscard]] Communicator& world() const { return state_->active_world(); }
  /// The communicator from which the mesh was made: the ranks of `world()` and the idle ranks.
  [[nodiscard]] Communicator& parent() const { return state_->parent; }
  /// Whether this rank is part of the mesh.
  [[nodiscard]] bool active() const { return state_->active(); }
  [[nodiscard]] const Engine& engine() const { return state_->engine; }
  /// This rank's number, which is the same in the mesh and in its parent.
  [[nodiscard]] int rank() const
  {
    return state_->elsewhere ? A::ranks(state_->extents) : state_->parent.rank();
  }
  /// The number of ranks of the mesh.
  [[nodiscard]] int size() const { return A::ranks(state_->extents); }
  [[nodiscard]] std::size_t quantum() const { return state_->quantum; }
  [[nodiscard]] const Array& extents() const { return state_->extents; }
  /// This rank's coordinates; zeros on an idle rank.
  [[nodiscard]] const Array& coordinates() const { return state_->coordinates; }
  /// The coordinates of a rank of the mesh.
  /// @pre rank < size()
  [[nodiscard]] Array coordinates(int rank) const { return A::coordinates(rank, state_->extents); }

  /// The number of ranks along `Axis`.
  template <class Axis>
  [[nodiscard]] int extent() const
  {
    return state_->extents[A::template index<Axis>()];
  }
  /// This rank's place along `Axis`.
  template <class Axis>
  [[nodiscard]] int coordinate() const
  {
    return state_->coordinates[A::template index<Axis>()];
  }

  /// Whether this rank is the first along each of these axes.
  template <class... Axis>
  [[nodiscard]] bool is_first(cubist::Axes<Axis...>) const
  {
    return ((coordinate<Axis>() == 0) && ...);
  }

  /// The communicator of the ranks whose coordinates differ from this rank's only along these axes,
  /// in the order of the mesh. The first call for a set of several axes is collective: every rank
  /// of the mesh makes it.
  /// @throws MeshError on an idle rank
  template <class... Axis>
  [[nodiscard]] Communicator& along() const
  {
    return along(A::template bits<Axis...>);
  }
  /// Returns that communicator for axes that are known only at run time: bit i of `axes` is axis i.
  [[nodiscard]] Communicator& along(unsigned axes) const
  {
    return detail::group_of_axes<A, B>(*state_, axes);
  }

  /// Buffers of V that calls on this rank borrow and give back, so that no step after the first one
  /// allocates. Copies of the mesh share them.
  template <class V>
  [[nodiscard]] auto& unused_buffers() const
  {
    return std::get<typename detail::MeshState<A, B>::template Buffers<V>>(state_->unused_buffers);
  }

  /// Whether two handles refer to the same mesh.
  friend bool operator==(const AxisMesh& a, const AxisMesh& b) { return a.state_ == b.state_; }

 private:
  AxisMesh() = default;

  std::shared_ptr<detail::MeshState<A, B>> state_;
};

namespace detail
{

/// A matrix in a buffer that the calls on this rank borrow and give back (`unused_buffers`).
template <class V, class M>
class BorrowedMatrix
{
 public:
  BorrowedMatrix(const M& mesh, Shape shape)
      : mesh_{mesh},
        data_{take(shape.size())},
        shape_{shape}
  {
  }
  BorrowedMatrix(const BorrowedMatrix&) = delete;
  BorrowedMatrix& operator=(const BorrowedMatrix&) = delete;
  ~BorrowedMatrix() { mesh_.template unused_buffers<V>().push_back(std::move(data_)); }

  [[nodiscard]] MatrixView<V> view() { return {data_.data(), shape_}; }
  friend void swap(BorrowedMatrix& a, BorrowedMatrix& b) { std::swap(a.data_, b.data_); }

 private:
  using Buffer = typename M::Engine::template Buffer<V>;

  /// Takes the smallest buffer that is large enough and not in use, or makes one.
  [[nodiscard]] Buffer take(std::size_t n)
  {
    auto& unused = mesh_.template unused_buffers<V>();
    auto best = unused.end();
    for (auto buffer = unused.begin(); buffer != unused.end(); ++buffer)
      if (buffer->size() >= n && (best == unused.end() || buffer->size() < best->size()))
        best = buffer;
    if (best == unused.end()) return Buffer(n);
    Buffer buffer = std::move(*best);
    unused.erase(best);
    return buffer;
  }

  const M& mesh_;
  Buffer data_;
  Shape shape_;
};

/// The names of the compiled library's meshes.
#define CUBIST_NAME_MESH(name, ...)                                                                \
  using name##Axes = Axes<__VA_ARGS__>;                                                            \
  template <class B>                                                                               \
  using name##Mesh = AxisMesh<name##Axes, B>;
CUBIST_IF_COMPILED(CUBIST_COMPILED_AXES(CUBIST_NAME_MESH))

}  // namespace detail

/// The instances of the compiled library (cubist/core/instances.hpp).
#define CUBIST_MESH_INSTANCES(prefix, A, B)                                                        \
  CUBIST_INSTANCE(prefix, detail::make_mesh_state<A, B, detail::Named<B>::Communicator>)           \
  CUBIST_INSTANCE(prefix, detail::group_of_axes<A, B, detail::Named<B>::Communicator>)
CUBIST_FOR_MESHES(CUBIST_MESH_INSTANCES)

}  // namespace cubist::CUBIST_ABI
