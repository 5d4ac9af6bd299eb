// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Predicts the time of the collectives method on a rank with a model of few terms, whose
// coefficients are figures of the machine. direct_cost.hpp predicts the direct method.
//
//   products  by the rates of the machine, as in the simulator (machine/rate_table.hpp). Pieces
//             that arrive from other nodes are multiplied one by one
//   inside    messages x latency + bytes / bandwidth, between ranks of one node
//   across    the same between nodes; the ranks of a node that send share its link
//
// A rank multiplies on its share of the cores. If the rank itself copies inside a node, on one
// core, these times add up (`Link::overlaps`). Other messages overlap with products. Messages
// inside a node use one link, and messages between nodes another:
//
//   operands   of a product are sent one after the other, after the previous product's results;
//              the product begins with the first of q pieces, and when the last one arrives, 1/q of
//              it remains
//   products   run one after the other
//   results    are sent when 1/q of their product is complete and the link is free; all-reduced
//              results, when the product is complete. If pieces are sent, the ranks that receive
//              them add them up, after the last product
//   gradients  that are summed over replicas are in flight during backward of earlier layers, while
//              their link has nothing else to send. What remains is added at the end, and is at
//              least the sums of the layer that backward reaches last (`with_gradient_sums`). In an
//              MLP, whose few layers differ, each layer's sums begin when its backward has ended
//              (`rest_of_gradient_sums`)
//
// A step ends with the last product or the last message, whichever is later. Messages also occupy
// processors, so only a part of the overlapped time is hidden (`Machine::hidden`); the rest is
// added.
//
// Padding counts as work, idle ranks do not. Source: Chan, Heimlich, Purkayastha, van de Geijn,
// "Collective communication: theory, practice, and experience", 2007, section 2.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <numeric>
#include <ostream>
#include <vector>

#include "cubist/machine/machine.hpp"
#include "cubist/plan/work.hpp"

namespace cubist::CUBIST_ABI
{

/// A time in seconds, and its parts.
struct Time
{
  double total = 0;     ///< seconds of all parts, without `sums`
  double products = 0;  ///< seconds of products
  double inside = 0;    // messages, copies and windows between ranks of a node
  double across = 0;    // messages between nodes
  double passes = 0;    // element-wise passes over memory
  double sums = 0;      ///< messages that sum gradients while backward runs
  double room = 0;      ///< seconds of backward in which the link of these sums is free
  double backward = 0;  ///< seconds of backward in `total`

  constexpr Time& operator+=(const Time& other)
  {
    total += other.total;
    products += other.products;
    inside += other.inside;
    across += other.across;
    passes += other.passes;
    sums += other.sums;
    room += other.room;
    backward += other.backward;
    return *this;
  }
  friend constexpr Time operator*(double n, const Time& t)
  {
    return {n * t.total,  n * t.products, n * t.inside, n * t.across,
            n * t.passes, n * t.sums,     n * t.room,   n * t.backward};
  }
  /// Writes the total: "0.25 s".
  friend std::ostream& operator<<(std::ostream& out, const Time& t)
  {
    return out << t.total << " s";
  }
};

/// Returns the seconds of local products.
[[nodiscard]] inline double seconds(const LocalGemm& gemm, Ranks ranks, const Machine& machine,
                                    std::size_t scalar_bytes)
{
  const RateTable& rates = machine.rates_of(scalar_bytes);
  return double(gemm.times) * machine.product_seconds(rates, gemm.size(), scalar_bytes) /
         machine.cores_to_multiply(ranks);
}

/// Returns the seconds in which a rank reads or writes this many elements on one of its cores.
[[nodiscard]] inline double pass_seconds(double elements, Ranks ranks, const Machine& machine,
                                         std::size_t scalar_bytes)
{
  return elements * double(scalar_bytes) / machine.pass_bandwidth(ranks.active) /
         std::min(1.0, machine.cores_to_multiply(ranks));
}

namespace detail
{

/// Returns the time of passes over this many elements in forward and in backward.
[[nodiscard]] inline Time pass_time(double forward, double backward, Ranks ranks,
                                    const Machine& machine, std::size_t scalar_bytes)
{
  const double room = pass_seconds(backward, ranks, machine, scalar_bytes);
  const double all = pass_seconds(forward, ranks, machine, scalar_bytes) + room;
  return {.total = all, .passes = all, .room = room, .backward = room};
}

[[nodiscard]] constexpr bool is_panel(const Transfer& t)
{
  return t.collective == CallKind::broadcast || t.collective == CallKind::reduce;
}

/// The number of members of a transfer's group that are on one node.
[[nodiscard]] inline int members_on_a_node(const Transfer& t, int ranks, const Machine& machine)
{
  return std::clamp(machine.on_a_node(ranks) / t.stride, 1, t.ranks);
}

/// The fewest members of a transfer's group on a node that has any. Groups of consecutive ranks
/// that do not fill nodes may begin and end inside nodes.
[[nodiscard]] inline int fewest_members_on_a_node(const Transfer& t, int ranks,
                                                  const Machine& machine)
{
  const int begins = std::gcd(t.ranks * t.stride, machine.on_a_node(ranks));
  return std::clamp(begins / t.stride, 1, t.ranks);
}

/// Returns the seconds in which the beginning of a panel passes through a chain of NCCL. Each edge
/// takes a latency, plus the time of a segment if the panel is longer than a segment.
[[nodiscard]] inline double chain_seconds(const Transfer& t, int ranks, const Machine& machine,
                                          std::size_t scalar_bytes)
{
  const double bytes = double(t.count) * double(scalar_bytes) / double(t.slices);
  const double segment = bytes > machine.segment_bytes ? machine.segment_bytes : 0;
  const int members = members_on_a_node(t, ranks, machine);
  const int nodes = (t.ranks + members - 1) / members;
  const auto edge = [&](const Link& link) { return link.latency + segment / link.bandwidth; };
  return (nodes - 1) * edge(machine.across()) + (t.ranks - nodes) * edge(machine.inside());
}

/// Returns the seconds for which a rank waits for latencies in a transfer. NCCL's all_reduce uses a
/// tree if that is faster than a ring. Four of SUMMA's panels are in flight between nodes, and two
/// inside.
[[nodiscard]] inline double latency_seconds(const Transfer& t, int ranks, const Machine& machine,
                                            std::size_t scalar_bytes)
{
  const bool within = t.within(machine.ranks_per_node(), ranks);
  const double one = (within ? machine.inside() : machine.across()).latency;
  const double slices = within ? 1 : double(t.slices);
  if (machine.algorithms == CollectiveAlgorithms::nccl)
  {
    if (is_panel(t))
    {
      const bool is_remote = ranks > machine.ranks_per_node();
      return chain_seconds(t, ranks, machine, scalar_bytes) * double(t.times) *
             (is_remote ? double(t.slices) / 4 : 1.0 / 2);
    }
    if (t.collective == CallKind::all_reduce)
    {
      const auto depth = std::bit_width(static_cast<unsigned>(t.ranks - 1));
      return one * std::min(t.messages(), 2.0 * depth * double(t.times));
    }
  }
  return one * t.messages() * slices;
}

}  // namespace detail

/// Returns the seconds of a transfer on a mesh of this many ranks.
[[nodiscard]] inline double seconds(const Transfer& t, int ranks, const Machine& machine,
                                    std::size_t scalar_bytes)
{
  const double bytes = t.words() * double(scalar_bytes);
  const Link& inside = machine.inside();
  const double latency = detail::latency_seconds(t, ranks, machine, scalar_bytes);
  if (t.within(machine.ranks_per_node(), ranks))
    return (latency + bytes / inside.bandwidth) / machine.share(ranks);
  // In a ring of neighbours, only the last rank of a node sends to another node.
  const double senders = std::min(t.stride, machine.on_a_node(ranks));
  const Link& across = machine.across();
  const int members = detail::members_on_a_node(t, ranks, machine);
  if (t.collective == CallKind::reduce_scatter)
  {
    // Each rank sends the terms of a sum to the ranks that own it. Terms for ranks of the same node
    // do not leave it. All others share the node's link, and those of one rank share its network
    // card.
    const double leaving = bytes * double(t.ranks - members) / double(t.ranks - 1);
    const double of_card = across.rank_bandwidth > 0 ? leaving / across.rank_bandwidth : 0;
    return latency + std::max(leaving * machine.on_a_node(ranks) / across.bandwidth, of_card);
  }
  double transfer = bytes * senders / across.bandwidth;
  if (across.rank_bandwidth > 0)
  {
    // NCCL's rings use the network cards of all ranks of the group on a node. The node with the
    // fewest limits them.
    const int fewest = machine.algorithms != CollectiveAlgorithms::nccl
                           ? 1
                           : detail::fewest_members_on_a_node(t, ranks, machine);
    transfer = std::max(transfer, bytes / (fewest * across.rank_bandwidth));
  }
  return latency + transfer;
}

namespace detail
{

[[nodiscard]] constexpr bool is_operand(const Transfer& t)
{
  return t.collective == CallKind::all_gather || t.collective == CallKind::broadcast;
}

/// Whether a transfer sums a gradient of W over replicas, which overlaps with other layers.
[[nodiscard]] constexpr bool sums_gradient(const Transfer& t)
{
  return t.collective == CallKind::all_reduce && t.matrix == LayerMatrix::w;
}

/// The products of a rank and its links, inside a node and between nodes, while it does some work.
class WorkTimer
{
 public:
  WorkTimer(const Work& work, Ranks ranks, const Machine& machine, std::size_t scalar_bytes)
      : work_{work},
        ranks_{ranks},
        machine_{machine},
        scalar_bytes_{scalar_bytes}
  {
    // SUMMA cuts panels into slices if its grid spans several nodes; products of gathered pieces
    // are cut if the mesh does.
    const bool is_remote = ranks.active > machine.ranks_per_node();
    is_far_ = work.in_pieces && is_remote;
    for (const auto& t : work.transfers)
      if (!sums_gradient(t))
        is_far_ = is_far_ || !within(t) || (t.collective == CallKind::all_gather && is_remote);
  }

  /// Does the work. Returns its time.
  [[nodiscard]] Time run()
  {
    Time time;
    double end = 0;  // the end of the last product
    for (std::size_t i = 0; i < products().size(); ++i)
    {
      const double product = cubist::seconds(products()[i], ranks_, machine_, scalar_bytes_);
      time.products += product;
      end = end_of_product(i, end, product);
      send_result(i, end, product);
    }
    double copied = 0;      // seconds in which the rank itself copies, and multiplies nothing
    double overlapped = 0;  // seconds of messages that overlap with the products
    double summed = 0;      // elements that it reads and writes to add up pieces of results
    const Transfer* sum = nullptr;
    for (const auto& t : work_.transfers)
    {
      const double busy = seconds(t);
      (within(t) ? time.inside : time.across) += busy;
      if (t.collective == CallKind::reduce_scatter) summed += 3 * t.words();
      if (!overlaps(t))
        copied += busy;
      else if (sums_gradient(t))
        time.sums += busy, sum = &t;
      else
        overlapped += busy;
    }
    double beside_sums = 0;  // seconds of other messages on the link of these sums
    for (const auto& t : work_.transfers)
      if (sum && !sums_gradient(t) && within(t) == within(*sum)) beside_sums += seconds(t);
    if (is_far_) time.passes = pass_seconds(summed, ranks_, machine_, scalar_bytes_);
    const double hidden = machine_.hidden(ranks_.active);
    time.total = hidden * std::max({end, inside_, across_}) +
                 (1 - hidden) * (time.products + overlapped) + copied + time.passes;
    time.room = std::max(0.0, time.total - beside_sums);
    return time;
  }

 private:
  [[nodiscard]] const Few<LocalGemm, 2>& products() const
  {
    return is_far_ ? work_.far_products : work_.products;
  }
  [[nodiscard]] bool within(const Transfer& t) const
  {
    return t.within(machine_.ranks_per_node(), ranks_.active);
  }
  [[nodiscard]] double seconds(const Transfer& t) const
  {
    return cubist::seconds(t, ranks_.active, machine_, scalar_bytes_);
  }
  /// Whether a transfer proceeds while its rank computes.
  [[nodiscard]] bool overlaps(const Transfer& t) const
  {
    return !within(t) || machine_.inside().overlaps;
  }
  /// Whether a transfer proceeds beside product i, and brings an operand of it. If there are two
  /// products, X is an operand only of dW; W, and the part of dY that comes first, are operands of
  /// dX.
  [[nodiscard]] bool brings_operand(const Transfer& t, std::size_t i) const
  {
    return overlaps(t) && is_operand(t) &&
           (products().size() == 1 || (t.matrix == LayerMatrix::x) == (i == 1));
  }
  /// Whether a transfer proceeds beside product i, and sends its result. If there are two products,
  /// dX is the result of the first and dW of the second.
  [[nodiscard]] bool sends_result(const Transfer& t, std::size_t i) const
  {
    return overlaps(t) && !is_operand(t) && !sums_gradient(t) &&
           (products().size() == 1 || t.matrix == (i == 0 ? LayerMatrix::x : LayerMatrix::w));
  }
  /// The number of pieces that travel one after the other.
  [[nodiscard]] double pieces(const Transfer& t) const
  {
    if (!within(t)) return t.pieces();
    if (is_panel(t)) return double(t.times);
    return is_far_ ? t.pieces() : 1;
  }
  /// The seconds of the first of these pieces, and of the last.
  [[nodiscard]] double piece(const Transfer& t) const
  {
    const double even = seconds(t) / pieces(t);
    if (machine_.algorithms != CollectiveAlgorithms::nccl || !is_panel(t)) return even;
    return std::max(even, chain_seconds(t, ranks_.active, machine_, scalar_bytes_));
  }
  /// The time at which the link of a transfer is free.
  [[nodiscard]] double& free(const Transfer& t) { return within(t) ? inside_ : across_; }

  /// Returns the time at which product i ends. It takes `product` seconds, and begins at `begin`
  /// with the pieces that have arrived. Its operands use the links as soon as these are free.
  [[nodiscard]] double end_of_product(std::size_t i, double begin, double product)
  {
    double end = begin + product;
    for (const auto& t : work_.transfers)
    {
      if (!brings_operand(t, i)) continue;
      double& free = this->free(t);
      const double first = std::max(free + piece(t), begin);
      free += seconds(t);
      end = std::max({end, first + product, free + product / pieces(t)});
    }
    return end;
  }
  /// Sends pieces of the result of product i, which takes `product` seconds and ends at `end`, as
  /// they complete.
  void send_result(std::size_t i, double end, double product)
  {
    for (const auto& t : work_.transfers)
    {
      if (!sends_result(t, i)) continue;
      double& free = this->free(t);
      const double first = end - product * (1 - 1 / pieces(t));
      free = std::max({free + seconds(t), first + seconds(t), end + piece(t)});
    }
  }

  const Work& work_;
  Ranks ranks_;
  const Machine& machine_;
  std::size_t scalar_bytes_;
  bool is_far_ = false;  // pieces are multiplied as they arrive
  double inside_ = 0;
  double across_ = 0;
};

}  // namespace detail

/// Returns the time of a layer's forward or backward pass.
[[nodiscard]] inline Time time_of(const Work& work, Ranks ranks, const Machine& machine,
                                  std::size_t scalar_bytes)
{
  return detail::WorkTimer{work, ranks, machine, scalar_bytes}.run();
}

/// Returns the seconds of the sums of gradients that remain when the backward pass has ended.
/// @param layers  the times of each layer's backward, in the order of forward
[[nodiscard]] inline double rest_of_gradient_sums(const std::vector<Time>& layers)
{
  double now = 0;
  double link = 0;  // the time at which it is free
  for (std::size_t i = layers.size(); i-- > 0;)
  {
    // The layer's own messages on that link come after the sums.
    link = std::max(link, now) + std::max(0.0, layers[i].backward - layers[i].room);
    now += layers[i].backward;
    if (layers[i].sums > 0) link = std::max(link, now) + layers[i].sums;
  }
  return std::max(0.0, link - now);
}

/// Returns a step's time including the sums of gradients over replicas that remain when backward
/// has ended.
/// @param last  the seconds of the sums that begin when backward ends
[[nodiscard]] inline Time with_gradient_sums(Time time, double last, double hidden)
{
  const double rest = std::max(std::min(last, time.sums), time.sums - time.room);
  time.total += hidden * rest + (1 - hidden) * time.sums;
  return time;
}

}  // namespace cubist::CUBIST_ABI
