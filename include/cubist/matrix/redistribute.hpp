// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Redistributes a matrix from any layout on any mesh to any other layout, axes, extents or number
// of ranks, within the communicator of both meshes.
//
//   from (M, N): any layout without Partial    to (M, N): any layout without Partial
//
// A rank's block is a rectangle of the global matrix; replicas are equal rectangles, and all
// others are disjoint. So a rank needs one rectangle of each source block, and receives it in one
// message from one of the block's replicas:
//
//   1. intersect this rank's old block with each rank's new block: what it sends
//   2. intersect each old block with this rank's new block: what it receives, from one replica
//   3. pack, exchange, copy the local part, unpack
//
// Elements sent: each element once to each rank that needs it and does not hold it, without
// padding. Rank r receives from replica r mod (number of replicas).

#include <cstddef>
#include <type_traits>
#include <vector>

#include "cubist/core/block.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/matrix/dist_matrix.hpp"
#include "cubist/matrix/placement.hpp"
#include "cubist/mesh/mesh.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

/// A rectangle that is sent to another rank, or received from it.
struct Message
{
  int rank;
  Rectangle elements;
};

/// One rank's part of a redistribution.
struct Transfers
{
  std::vector<Message> sends;
  std::vector<Message> receives;
  Rectangle local;  // what is copied from this rank's old block to its new one
};

template <class From, class To>
[[nodiscard]] Transfers plan_transfers(const From& from, const To& to)
{
  const int rank = from.mesh.parent().rank();
  const int ranks = from.mesh.parent().size();
  const Block mine = from.block(rank);
  const Block target = to.block(rank);

  Transfers transfers;
  for (const auto& [_, replicas] : replica_map(ranks, [&](int r) { return from.block(r); }))
  {
    const Block block = from.block(replicas.front());
    const auto sender_to = [&holders = replicas](int receiver) {
      return holders[static_cast<std::size_t>(receiver) % holders.size()];
    };
    const Rectangle needed = intersection(block, target);
    if (!(block == mine))
    {
      if (!needed.empty()) transfers.receives.push_back({sender_to(rank), needed});
      continue;
    }
    transfers.local = needed;
    for (int step = 1; step < ranks; ++step)
    {
      const int receiver =
          (rank + step) % ranks;  // staggered, so that not all ranks send to the same one at once
      const Rectangle theirs = intersection(block, to.block(receiver));
      if (sender_to(receiver) == rank && !theirs.empty() && !(from.block(receiver) == block))
        transfers.sends.push_back({receiver, theirs});
    }
  }
  return transfers;
}

/// Returns a view of a rectangle of the global matrix in this rank's block.
template <class T, class M>
[[nodiscard]] MatrixView<T> local_view(const DistView<T, M>& m, const Rectangle& r)
{
  const Block b = m.block(m.mesh.rank());
  return r.empty() ? MatrixView<T>{}
                   : m.padded.block(r.i - b.rows.offset, r.j - b.cols.offset, r.shape);
}

/// A buffer that holds all messages, one after the other.
template <class T, class E>
class PackedMessages
{
 public:
  explicit PackedMessages(const std::vector<Message>& messages)
  {
    std::size_t size = 0;
    for (const Message& p : messages) size += p.elements.shape.size();
    buffer_ = Buffer(size);
    T* next = buffer_.data();
    for (const Message& p : messages)
    {
      views_.emplace_back(next, p.elements.shape);
      next += p.elements.shape.size();
    }
  }

  [[nodiscard]] MatrixView<T> operator[](std::size_t i) const { return views_[i]; }

 private:
  using Buffer = typename E::template Buffer<T>;
  Buffer buffer_ = Buffer(0);
  std::vector<MatrixView<T>> views_;
};

}  // namespace detail

/// Copies the elements of `from` (M, N) to `to` (M, N), whose padding does not change. All ranks of
/// the communicator of both meshes call it, idle ones included.
/// @pre `from` and `to` share no memory, unless they are the same matrix
/// @throws ShapeError for unequal shapes, MeshError for meshes on different communicators
template <class In, class T, class M1, class M2>
requires std::is_same_v<std::remove_const_t<In>, T>
void redistribute(const DistView<In, M1>& from, const DistView<T, M2>& to)
{
  using Communicator = typename M2::Communicator;
  using Engine = typename M2::Engine;
  static_assert(std::is_same_v<typename M1::Communicator, Communicator>,
                "these meshes have communicators of different backends, so no message can be sent "
                "from one to the other; create both meshes on the same backend");
  Communicator& parent = to.mesh.parent();
  require<ShapeError>(from.shape == to.shape, "got a matrix of ", from.shape, " for one of ",
                      to.shape, ", so their elements do not correspond; give both the same shape");
  require<MeshError>(from.mesh.parent().size() == parent.size() &&
                         from.mesh.parent().rank() == parent.rank(),
                     "got a matrix on a mesh created as rank ", from.mesh.parent().rank(), " of ",
                     from.mesh.parent().size(), " for one on a mesh created as rank ",
                     parent.rank(), " of ", parent.size(),
                     ", so messages would reach other ranks; create both meshes on the same "
                     "communicator, the smaller one with IdleRanks::allowed");

  const Engine& engine = to.mesh.engine();
  const detail::Transfers transfers = detail::plan_transfers(from, to);
  const detail::PackedMessages<T, Engine> received{transfers.receives};
  const detail::PackedMessages<T, Engine> sent{transfers.sends};
  std::vector<decltype(parent.async_barrier())> requests;
  for (std::size_t i = 0; i < transfers.receives.size(); ++i)
    requests.push_back(parent.async_receive(received[i].elements(), transfers.receives[i].rank));
  for (std::size_t i = 0; i < transfers.sends.size(); ++i)
  {
    const MatrixView<const T> source = detail::local_view(from, transfers.sends[i].elements);
    engine.copy(source, sent[i]);
    requests.push_back(parent.async_send(sent[i].elements(), transfers.sends[i].rank));
  }
  const MatrixView<const T> local = detail::local_view(from, transfers.local);
  engine.copy(local, detail::local_view(to, transfers.local));
  for (auto& request : requests) request.wait();
  for (std::size_t i = 0; i < transfers.receives.size(); ++i)
    engine.copy(MatrixView<const T>{received[i]},
                detail::local_view(to, transfers.receives[i].elements));
}

template <Scalar T, class L1, class M1, class L2, class M2>
void redistribute(const DistMatrix<T, L1, M1>& from, DistMatrix<T, L2, M2>& to)
{
  redistribute(from.view(), to.view());
}

/// Returns a copy of the matrix in layout `L` on `mesh`. All ranks of the mesh's parent call it.
/// @throws MeshError for a mesh on another communicator
template <class L, Scalar T, class L1, class M1, class A, class B>
[[nodiscard]] auto redistribute(const DistMatrix<T, L1, M1>& from, const AxisMesh<A, B>& mesh)
{
  DistMatrix<T, L, AxisMesh<A, B>> to{mesh, from.shape()};
  redistribute(from, to);
  return to;
}

}  // namespace cubist::CUBIST_ABI
