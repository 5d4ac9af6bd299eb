// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// From any layout on any mesh to any other: other axes, extents or numbers of ranks, within the
// communicator that both meshes were made on.
//
//   from (M, N): any layout without Partial    to (M, N): any layout without Partial
//
// A rank's block is a rectangle of the global matrix. Replicas have equal rectangles, other ranks
// disjoint ones. So what a rank needs of one source block is one rectangle, which comes in one
// message from one of the block's replicas:
//
//   1. for each rank, intersect its new block with my old one: what I send, if the turn is mine;
//   2. for each old block, intersect it with my new one: what I receive, and from which replica;
//   3. pack, exchange, copy what stays, unpack.
//
// Words: each element once to each rank that needs it and does not hold it; padding never travels.
// Replicas take turns by the number of the rank that receives.

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

#include "cubist/core/block.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/dist/dist_matrix.hpp"
#include "cubist/dist/holders.hpp"
#include "cubist/mesh/mesh.hpp"

namespace cubist
{

namespace detail
{

/// What goes to another rank, or comes from it.
struct Parcel
{
  int rank;
  Rectangle what;
};

/// What one rank does in a redistribution.
struct Moves
{
  std::vector<Parcel> sends;
  std::vector<Parcel> receives;
  Rectangle stays;
};

template <class From, class To>
[[nodiscard]] Moves plan_moves(const From& from, const To& to)
{
  const int rank = from.mesh.parent().rank();
  const int ranks = from.mesh.parent().size();
  const Block mine = from.block(rank);
  const Block wanted = to.block(rank);

  Moves moves;
  for (const auto& [_, replicas] : holders(ranks, [&](int r) { return from.block(r); }))
  {
    const Block block = from.block(replicas.front());
    const auto sender_to = [&replicas = replicas](int receiver) {
      return replicas[static_cast<std::size_t>(receiver) % replicas.size()];
    };
    const Rectangle needed = intersection(block, wanted);
    if (!(block == mine))
    {
      if (!needed.empty()) moves.receives.push_back({sender_to(rank), needed});
      continue;
    }
    moves.stays = needed;
    for (int step = 1; step < ranks; ++step)
    {
      const int receiver = (rank + step) % ranks;  // not all to the same one at once
      const Rectangle theirs = intersection(block, to.block(receiver));
      if (sender_to(receiver) == rank && !theirs.empty() && !(from.block(receiver) == block))
        moves.sends.push_back({receiver, theirs});
    }
  }
  return moves;
}

/// A rectangle of the matrix in the memory of this rank's block.
template <class T, class M>
[[nodiscard]] MatrixView<T> in_memory(const DistView<T, M>& m, const Rectangle& r)
{
  const Block b = m.block(m.mesh.rank());
  return r.empty() ? MatrixView<T>{}
                   : m.padded.block(r.i - b.rows.offset, r.j - b.cols.offset, r.shape);
}

/// Room for parcels, one behind the other.
template <class T, class E>
class Packed
{
 public:
  explicit Packed(const std::vector<Parcel>& parcels) : buffer_(size_of(parcels))
  {
    T* next = buffer_.data();
    for (const Parcel& p : parcels)
    {
      views_.emplace_back(next, p.what.shape);
      next += p.what.shape.size();
    }
  }

  [[nodiscard]] MatrixView<T> operator[](std::size_t i) const { return views_[i]; }

 private:
  static std::size_t size_of(const std::vector<Parcel>& parcels)
  {
    std::size_t n = 0;
    for (const Parcel& p : parcels) n += p.what.shape.size();
    return n;
  }

  typename E::template Buffer<T> buffer_;
  std::vector<MatrixView<T>> views_;
};

}  // namespace detail

/// Copies the elements of `from` to `to`, whose padding is left alone. Every rank of the
/// communicator that both meshes were made on calls it, idle ones too.
/// @pre the two share no memory, unless they are the same matrix
/// @throws ShapeError unless both have the same shape, MeshError for meshes on other communicators
template <class In, class T, class M1, class M2>
requires std::is_same_v<std::remove_const_t<In>, T>
void redistribute(const DistView<In, M1>& from, const DistView<T, M2>& to)
{
  using Communicator = typename M2::Communicator;
  using Engine = typename M2::Engine;
  static_assert(std::is_same_v<typename M1::Communicator, Communicator>,
                "these meshes have communicators of different backends, so no message goes from "
                "one to the other; make both meshes on the same backend");
  Communicator& parent = to.mesh.parent();
  require<ShapeError>(from.shape == to.shape, "got a matrix of ", from.shape, " for one of ",
                      to.shape, ", which has other elements; give them the same shape");
  require<MeshError>(from.mesh.parent().size() == parent.size() &&
                         from.mesh.parent().rank() == parent.rank(),
                     "got a matrix on a mesh made as rank ", from.mesh.parent().rank(), " of ",
                     from.mesh.parent().size(), " for one on a mesh made as rank ", parent.rank(),
                     " of ", parent.size(),
                     ", so messages would reach other ranks; make both meshes on the same "
                     "communicator, the smaller one with IdleRanks::allowed");

  const Engine& engine = to.mesh.engine();
  const detail::Moves moves = detail::plan_moves(from, to);
  const detail::Packed<T, Engine> received{moves.receives};
  const detail::Packed<T, Engine> sent{moves.sends};
  std::vector<decltype(parent.async_barrier())> requests;
  for (std::size_t i = 0; i < moves.receives.size(); ++i)
    requests.push_back(parent.async_receive(received[i].elements(), moves.receives[i].rank));
  for (std::size_t i = 0; i < moves.sends.size(); ++i)
  {
    const MatrixView<const T> source = detail::in_memory(from, moves.sends[i].what);
    engine.copy(source, sent[i]);
    requests.push_back(parent.async_send(sent[i].elements(), moves.sends[i].rank));
  }
  const MatrixView<const T> staying = detail::in_memory(from, moves.stays);
  engine.copy(staying, detail::in_memory(to, moves.stays));
  for (auto& request : requests) request.wait();
  for (std::size_t i = 0; i < moves.receives.size(); ++i)
    engine.copy(MatrixView<const T>{received[i]}, detail::in_memory(to, moves.receives[i].what));
}

template <Scalar T, class L1, class M1, class L2, class M2>
void redistribute(const DistMatrix<T, L1, M1>& from, DistMatrix<T, L2, M2>& to)
{
  redistribute(from.view(), to.view());
}

/// The same matrix in layout `L` on `mesh`. Every rank of the mesh's parent calls it.
/// @throws MeshError for a mesh on another communicator
template <class L, Scalar T, class L1, class M1, class A, class B>
[[nodiscard]] auto redistribute(const DistMatrix<T, L1, M1>& from, const AxisMesh<A, B>& mesh)
{
  DistMatrix<T, L, AxisMesh<A, B>> to{mesh, from.shape()};
  redistribute(from, to);
  return to;
}

}  // namespace cubist
