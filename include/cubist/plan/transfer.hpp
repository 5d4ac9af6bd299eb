// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A collective of a product, as a value: the words and messages that it sends.
//
// The conventions are those of testing/traffic.hpp, averaged over the ranks of the axis. With p
// ranks and pieces of b elements, a rank sends
//
//   broadcast, reduce              (p-1)/p b        (p-1)/p messages   pipelined
//   all_gather, reduce_scatter     (p-1) b          p-1 messages       around a ring
//   all_reduce                     2 (p-1)/p b      2 (p-1) messages   around a ring, twice
//
// Source: Chan, Heimlich, Purkayastha, van de Geijn, "Collective communication: theory, practice,
// and experience", 2007.

#include <cstddef>
#include <cstdint>

#include "cubist/comm/call.hpp"

namespace cubist
{

/// A matrix of a product, or its gradient.
enum class LayerMatrix : std::uint8_t
{
  x,
  w,
  y
};

/// Collectives of one kind along one axis of a mesh.
struct Transfer
{
  Collective collective = Collective::barrier;
  LayerMatrix matrix = LayerMatrix::x;
  /// Ranks along the axis.
  int ranks = 1;
  /// The difference of the numbers of neighbours along the axis, in the mesh.
  int stride = 1;
  /// Elements of one piece, as in `Call`.
  std::size_t count = 0;
  /// The number of collectives: one, or one for each panel.
  std::size_t times = 1;
  /// The number of messages into which a piece is cut between nodes.
  std::size_t slices = 1;

  /// Elements that a rank sends, averaged over the ranks.
  [[nodiscard]] constexpr double words() const
  {
    return per_rank(collective) * static_cast<double>(times) * static_cast<double>(count);
  }

  /// Messages that a rank sends, averaged over the ranks.
  [[nodiscard]] constexpr double messages() const
  {
    const double p = ranks;
    const double rounds = collective == Collective::all_reduce ? p : 1;
    return per_rank(collective) * rounds * static_cast<double>(times);
  }

  /// The number of pieces that arrive or are sent one after the other between nodes; each is
  /// multiplied when it has arrived.
  [[nodiscard]] constexpr double pieces() const
  {
    if (collective == Collective::all_reduce) return 1;
    const bool by_ranks =
        collective == Collective::all_gather || collective == Collective::reduce_scatter;
    return by_ranks ? ranks : static_cast<double>(times * slices);
  }

  /// Whether every group of ranks along the axis lies on one node of so many consecutive ranks.
  [[nodiscard]] constexpr bool within(int ranks_per_node, int mesh_ranks) const
  {
    return ranks == 1 || mesh_ranks <= ranks_per_node || ranks_per_node % (ranks * stride) == 0;
  }

  friend constexpr bool operator==(const Transfer&, const Transfer&) = default;

 private:
  /// Pieces that a rank sends in one collective.
  [[nodiscard]] constexpr double per_rank(Collective c) const
  {
    const double p = ranks;
    switch (c)
    {
    case Collective::broadcast:
    case Collective::reduce:
      return (p - 1) / p;
    case Collective::all_gather:
    case Collective::reduce_scatter:
      return p - 1;
    case Collective::all_reduce:
      return 2 * (p - 1) / p;
    default:
      return 0;
    }
  }
};

}  // namespace cubist
