// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The cost of one layer for a rank, as values: products of local blocks, collectives, memory.
// Padding makes the shares of all ranks equal. The members called `words` count elements.
//
// The conventions of comm/traffic.hpp apply, averaged over the ranks of the axis. With p ranks and
// pieces of b elements, a rank sends
//
//   broadcast, reduce              (p-1)/p b        (p-1)/p messages   pipelined
//   all_gather, reduce_scatter     (p-1) b          p-1 messages       around a ring
//   all_reduce                     2 (p-1)/p b      2 (p-1) messages   around a ring, twice
//
// Source: Chan, Heimlich, Purkayastha, van de Geijn, "Collective communication: theory, practice,
// and experience", 2007.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "cubist/comm/call.hpp"
#include "cubist/core/block.hpp"

namespace cubist::CUBIST_ABI
{

/// A matrix of a product, or its gradient.
enum class LayerMatrix : std::uint8_t
{
  x,  ///< X
  w,  ///< W
  y   ///< Y
};

/// Collectives of one kind along one axis of a mesh.
struct Transfer
{
  CallKind collective = CallKind::barrier;  ///< which collective
  LayerMatrix matrix = LayerMatrix::x;      ///< which matrix is sent
  int ranks = 1;                            ///< ranks along the axis
  int stride = 1;          ///< the difference between the numbers of neighbours along the axis
  std::size_t count = 0;   ///< elements of one piece, as in `Call`
  std::size_t times = 1;   ///< number of collectives: one, or one for each panel
  std::size_t slices = 1;  ///< messages into which a piece is cut between nodes

  /// The number of elements that a rank sends, averaged over the ranks.
  [[nodiscard]] constexpr double words() const
  {
    return per_rank() * static_cast<double>(times) * static_cast<double>(count);
  }

  /// The number of elements that all ranks of a mesh send in total.
  /// @pre the axis divides the mesh
  [[nodiscard]] constexpr std::uint64_t words_of_all(int mesh_ranks) const
  {
    const auto p = static_cast<std::uint64_t>(ranks);
    const std::uint64_t of_a_group = (p - 1) * (has_pieces()                         ? p
                                                : collective == CallKind::all_reduce ? 2
                                                                                     : 1);
    return static_cast<std::uint64_t>(mesh_ranks) / p * of_a_group * times * count;
  }

  /// The number of messages that a rank sends, averaged over the ranks.
  [[nodiscard]] constexpr double messages() const
  {
    const double p = ranks;
    const double rounds = collective == CallKind::all_reduce ? p : 1;
    return per_rank() * rounds * static_cast<double>(times);
  }

  /// The number of pieces that travel one after the other between nodes. Each is multiplied when it
  /// has arrived.
  [[nodiscard]] constexpr double pieces() const
  {
    if (collective == CallKind::all_reduce) return 1;
    return has_pieces() ? ranks : static_cast<double>(times * slices);
  }

  /// Whether every group of ranks along the axis lies on one node of this many consecutive ranks.
  [[nodiscard]] constexpr bool within(int ranks_per_node, int mesh_ranks) const
  {
    return ranks == 1 || mesh_ranks <= ranks_per_node || ranks_per_node % (ranks * stride) == 0;
  }

  friend constexpr bool operator==(const Transfer&, const Transfer&) = default;

 private:
  /// Whether each rank has its own piece.
  [[nodiscard]] constexpr bool has_pieces() const
  {
    return collective == CallKind::all_gather || collective == CallKind::reduce_scatter;
  }
  /// The number of pieces that a rank sends in one collective.
  [[nodiscard]] constexpr double per_rank() const
  {
    const double p = ranks;
    if (has_pieces()) return p - 1;
    if (collective == CallKind::all_reduce) return 2 * (p - 1) / p;
    return (p - 1) / p;
  }
};

/// A list of at most `most` values, without heap memory.
template <class T, std::size_t most>
class Few
{
 public:
  /// @pre size() < most
  constexpr void add(const T& value) { values_[count_++] = value; }
  [[nodiscard]] constexpr std::size_t size() const { return count_; }
  [[nodiscard]] constexpr const T& operator[](std::size_t i) const { return values_[i]; }
  [[nodiscard]] constexpr const T* begin() const { return values_.data(); }
  [[nodiscard]] constexpr const T* end() const { return values_.data() + count_; }
  /// Adds up a figure over the list.
  template <class Figure>
  [[nodiscard]] constexpr double sum(Figure figure) const
  {
    double all = 0;
    for (const T& value : *this) all += (value.*figure)();
    return all;
  }

 private:
  std::array<T, most> values_{};
  std::size_t count_ = 0;
};

/// C (m, n) += A (m, k) B (k, n) in the memory of a rank, `times` times.
struct LocalGemm
{
  std::size_t m = 0;      ///< rows of the result
  std::size_t n = 0;      ///< columns of the result
  std::size_t k = 0;      ///< the dimension over which it sums
  std::size_t times = 1;  ///< how many times it is computed

  /// The number of multiplications and additions.
  [[nodiscard]] constexpr double flops() const
  {
    return 2 * double(m) * double(n) * double(k) * double(times);
  }
  /// The sizes of one product.
  [[nodiscard]] constexpr ProductSize size() const { return {.m = m, .n = n, .k = k}; }
};

/// The work of a rank in forward, or in backward.
struct Work
{
  Few<LocalGemm, 2> products;  ///< products of a rank
  /// The products of a rank if ranks are on several nodes. They are thinner, because pieces are
  /// multiplied as they arrive.
  Few<LocalGemm, 2> far_products;
  bool in_pieces = false;      ///< whether they apply whenever the mesh spans several nodes
  Few<Transfer, 8> transfers;  ///< what a rank sends

  /// The number of operations of the products: 2 m n k each.
  [[nodiscard]] constexpr double flops() const { return products.sum(&LocalGemm::flops); }
  /// The number of elements that a rank sends, averaged over the ranks.
  [[nodiscard]] constexpr double words() const { return transfers.sum(&Transfer::words); }
  /// The number of messages that a rank sends, averaged over the ranks.
  [[nodiscard]] constexpr double messages() const { return transfers.sum(&Transfer::messages); }
  /// The number of elements that all ranks of a mesh send in total.
  [[nodiscard]] constexpr std::uint64_t words_of_all(int mesh_ranks) const
  {
    std::uint64_t all = 0;
    for (const auto& t : transfers) all += t.words_of_all(mesh_ranks);
    return all;
  }
};

/// The memory of a rank in a step, in bytes, by use.
struct MemoryParts
{
  double parameters = 0;   ///< the values of the parameters
  double gradients = 0;    ///< the gradients of the parameters
  double optimizer = 0;    ///< moments, and masters of 16-bit weights
  double activations = 0;  ///< outputs of layers, and their gradients
  double workspace = 0;    ///< gathered operands, panels, partial sums

  /// The sum of all uses.
  [[nodiscard]] constexpr double total() const
  {
    return parameters + gradients + optimizer + activations + workspace;
  }
  constexpr MemoryParts& operator*=(double n)
  {
    for (double* part : {&parameters, &gradients, &optimizer, &activations, &workspace}) *part *= n;
    return *this;
  }
};

namespace detail
{

/// The activations and workspaces of layers whose activations are recomputed. Layers of one kind
/// share memory if they are in different segments (nn/layer.hpp, LayerStack).
class SegmentMemory
{
 public:
  /// @param recompute the number of layers in a segment; 0 for all
  SegmentMemory(std::size_t layers, std::size_t recompute)
      : layers_{layers},
        length_{recompute == 0 ? layers : recompute}
  {
  }

  /// Whether layer i runs forward again in backward.
  [[nodiscard]] bool is_recomputed(std::size_t i) const
  {
    return i / length_ < (layers_ - 1) / length_;
  }

  /// Adds layer i, of kind 0 or 1. Sizes are in bytes.
  void add(std::size_t i, std::size_t kind, double activations, double workspace, double output)
  {
    if (i % length_ == 0) now_ = {};
    now_[kind].activations += activations;
    now_[kind].workspace += workspace;
    most_[kind].activations = std::max(most_[kind].activations, now_[kind].activations);
    most_[kind].workspace = std::max(most_[kind].workspace, now_[kind].workspace);
    if (length_ >= layers_ || ((i + 1) % length_ != 0 && i + 1 < layers_)) return;
    outputs_ += output;
    if (is_recomputed(i)) gradients_[i % 2] = std::max(gradients_[i % 2], output);
  }

  void add_to(MemoryParts& memory) const
  {
    memory.activations += outputs_ + gradients_[0] + gradients_[1];
    for (const auto& kind : most_)
    {
      memory.activations += kind.activations;
      memory.workspace += kind.workspace;
    }
  }

 private:
  std::size_t layers_;
  std::size_t length_;                 // layers in a segment
  std::array<MemoryParts, 2> now_;     // the memory of a segment, by kind
  std::array<MemoryParts, 2> most_;    // the memory of the segment that needs the most
  std::array<double, 2> gradients_{};  // the memory of gradients between segments
  double outputs_ = 0;                 // the memory of the outputs of segments
};

}  // namespace detail

/// The cost of a linear layer without a bias.
struct Cost
{
  Work forward;
  Work backward;
  Work backward_weight;            ///< backward without dX, as in the first layer of a network
  Work backward_input;             ///< backward without dW, for a weight that is frozen
  std::size_t near_workspace = 0;  ///< elements of gathered operands, panels and partial sums
  std::size_t far_workspace =
      0;          ///< the same if ranks are on several nodes, where more pieces are in flight
  int reach = 1;  ///< consecutive ranks that must share a node for the near workspace to suffice

  /// The number of elements of workspace on a mesh of this many ranks.
  [[nodiscard]] constexpr std::size_t workspace(int ranks_per_node, int mesh_ranks) const
  {
    const bool near = mesh_ranks <= ranks_per_node || ranks_per_node % reach == 0;
    return near ? near_workspace : far_workspace;
  }
};

}  // namespace cubist::CUBIST_ABI
