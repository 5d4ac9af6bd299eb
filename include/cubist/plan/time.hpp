// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Predicts the time of the collectives method on a rank, by a model of few terms whose coefficients
// are figures of the machine. direct_cost.hpp predicts the direct method.
//
//   products  by the rates of the machine, as the simulator's (machine/rate_table.hpp); pieces that
//             arrive from other nodes are multiplied one by one
//   inside    messages x latency + bytes / bandwidth, between ranks of one node
//   across    the same between nodes; the ranks of a node that send share its link
//
// A rank multiplies on its share of the cores. Inside a node the rank itself copies, on one core,
// so the times add. Between nodes messages overlap with products:
//
//   operands   are sent from the beginning, one after the other; when the last of q pieces arrives,
//              1/q of the first product remains
//   products   run one after the other
//   results    are sent when 1/q of their product is complete and the link is free; all-reduced
//              results, when the product is complete
//
// A step ends with the last product or the last message, whichever is later. Messages also occupy
// processors, so only a part of the overlapped time is hidden (`Machine::hidden`); the rest is
// added.
//
// Padding counts as work, idle ranks do not. Source: Chan, Heimlich, Purkayastha, van de Geijn,
// "Collective communication: theory, practice, and experience", 2007, section 2.

#include <algorithm>
#include <cstddef>

#include "cubist/machine/machine.hpp"
#include "cubist/plan/work.hpp"

namespace cubist::CUBIST_ABI
{

/// Seconds, and their parts.
struct Time
{
  double total = 0;     ///< seconds of all parts
  double products = 0;  ///< seconds of products
  double inside = 0;    // messages, copies and windows between ranks of a node
  double across = 0;    // messages between nodes
  double passes = 0;    // element-wise, over memory

  constexpr Time& operator+=(const Time& other)
  {
    total += other.total;
    products += other.products;
    inside += other.inside;
    across += other.across;
    passes += other.passes;
    return *this;
  }
  friend constexpr Time operator*(double n, const Time& t)
  {
    return {n * t.total, n * t.products, n * t.inside, n * t.across, n * t.passes};
  }
};

/// Seconds of local products.
[[nodiscard]] inline double seconds(const LocalGemm& gemm, Ranks ranks, const Machine& machine,
                                    std::size_t scalar_bytes)
{
  const RateTable& rates = machine.rates_of(scalar_bytes);
  return double(gemm.times) * machine.product_seconds(rates, gemm.size(), scalar_bytes) /
         machine.cores_to_multiply(ranks);
}

/// The seconds in which a rank reads or writes this many elements, on one of its cores.
[[nodiscard]] inline double pass_seconds(double elements, Ranks ranks, const Machine& machine,
                                         std::size_t scalar_bytes)
{
  return elements * double(scalar_bytes) / machine.pass_bandwidth(ranks.active) /
         std::min(1.0, machine.cores_to_multiply(ranks));
}

/// The seconds of a transfer on a mesh of this many ranks.
[[nodiscard]] inline double seconds(const Transfer& t, int ranks, const Machine& machine,
                                    std::size_t scalar_bytes)
{
  const double bytes = t.words() * double(scalar_bytes);
  const Link& inside = machine.inside();
  if (t.within(machine.ranks_per_node(), ranks))
    return (t.messages() * inside.latency + bytes / inside.bandwidth) / machine.share(ranks);
  // In a ring of neighbours only the last rank of a node sends to another node.
  const double senders = std::min(t.stride, machine.on_a_node(ranks));
  const Link& across = machine.across();
  double transfer = bytes * senders / across.bandwidth;
  if (across.rank_bandwidth > 0) transfer = std::max(transfer, bytes / across.rank_bandwidth);
  return t.messages() * double(t.slices) * across.latency + transfer;
}

namespace detail
{

[[nodiscard]] constexpr bool is_operand(const Transfer& t)
{
  return t.collective == Collective::all_gather || t.collective == Collective::broadcast;
}

/// Whether a matrix is the result of a product. If there are two products, dX is the result of the
/// first and dW of the second.
[[nodiscard]] constexpr bool is_result(LayerMatrix which, std::size_t product, std::size_t products)
{
  return products == 1 || which == (product == 0 ? LayerMatrix::x : LayerMatrix::w);
}

}  // namespace detail

/// Seconds of one direction of a layer.
[[nodiscard]] inline Time time_of(const Work& work, Ranks ranks, const Machine& machine,
                                  std::size_t scalar_bytes)
{
  Time time;
  const auto within = [&](const Transfer& t) {
    return t.within(machine.ranks_per_node(), ranks.active);
  };
  const auto time_on_link = [&](const Transfer& t) {
    return seconds(t, ranks.active, machine, scalar_bytes);
  };

  double link = 0;  // the time at which the link is free
  double pieces = 1;
  for (const auto& t : work.transfers)
  {
    (within(t) ? time.inside : time.across) += time_on_link(t);
    if (within(t) || !detail::is_operand(t)) continue;
    pieces = link == 0 ? t.pieces() : std::min(pieces, t.pieces());
    link += time_on_link(t);
  }
  const auto& products = time.across > 0 ? work.far_products : work.products;
  for (std::size_t i = 0; i < products.size(); ++i)
  {
    const double product = seconds(products[i], ranks, machine, scalar_bytes);
    time.products += product;
    if (i == 0)
      time.total = std::max(product, link + product / pieces);
    else
      time.total += product;
    for (const auto& t : work.transfers)
    {
      if (within(t) || detail::is_operand(t)) continue;
      if (!detail::is_result(t.matrix, i, products.size())) continue;
      link = std::max(link, time.total - product * (1 - 1 / t.pieces())) + time_on_link(t);
    }
  }
  const double apart = time.products + time.across;
  const double hidden = machine.hidden(ranks.active);
  time.total = hidden * std::max(time.total, link) + (1 - hidden) * apart;
  time.total += time.inside;
  return time;
}

}  // namespace cubist::CUBIST_ABI
