// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// How long a rank works on a machine, by a model of few terms. All coefficients are the machine's.
//
//   products  operations / rate + bytes touched / memory bandwidth, the latter for thin blocks;
//             pieces that come from other nodes are multiplied one by one
//   inside    messages x latency + bytes / bandwidth, between ranks of one node
//   across    the same between nodes, where those of a node's ranks that send share its link
//
// A rank multiplies on all cores that are its share. Inside a node it also copies, on one of them:
// the times add.
// Across nodes messages travel while ranks multiply, by a timetable:
//
//   operands   travel from the beginning, one after the other; with the last of q pieces that come,
//              1/q of the first product is left to do
//   products   one after the other
//   results    leave when 1/q of their product is done and the link is free; what is all-reduced,
//              when all of it is
//
// A step ends with the last product or the last message, whichever is later. Messages also take
// processors: of what overlaps so, only a part is hidden (`Machine::hidden`), the rest adds up.
//
// Padding counts as work, idle ranks don't. Source: Chan, Heimlich, Purkayastha, van de Geijn,
// "Collective communication: theory, practice, and experience", 2007, section 2; Williams,
// Waterman, Patterson, "Roofline", 2009.

#include <algorithm>
#include <cstddef>

#include "cubist/plan/machine.hpp"
#include "cubist/plan/work.hpp"

namespace cubist
{

/// Seconds, and what they go to.
struct Time
{
  double total = 0;
  double products = 0;
  double inside = 0;
  double across = 0;

  constexpr Time& operator+=(const Time& other)
  {
    total += other.total;
    products += other.products;
    inside += other.inside;
    across += other.across;
    return *this;
  }
};

/// Seconds of one transfer on a mesh of so many ranks.
[[nodiscard]] constexpr double seconds(const Transfer& t, int ranks, const Machine& machine,
                                       std::size_t scalar_bytes)
{
  const double bytes = t.words() * double(scalar_bytes);
  if (t.within(machine.ranks_per_node, ranks))
    return (t.messages() * machine.inside.latency + bytes / machine.inside.bandwidth) /
           machine.share(ranks);
  // In a ring of neighbours only the last one on a node sends to another node.
  const double senders = std::min(t.stride, machine.on_a_node(ranks));
  return t.messages() * double(t.slices) * machine.across.latency +
         bytes * senders / machine.across.bandwidth;
}

namespace detail
{

[[nodiscard]] constexpr bool is_operand(const Transfer& t)
{
  return t.collective == Collective::all_gather || t.collective == Collective::broadcast;
}

/// The matrix that a product makes: Y in forward; dX, then dW in backward.
[[nodiscard]] constexpr LayerMatrix result_of(std::size_t product, std::size_t products)
{
  if (products == 1) return LayerMatrix::y;
  return product == 0 ? LayerMatrix::x : LayerMatrix::w;
}

}  // namespace detail

/// Seconds of one direction of a layer.
[[nodiscard]] constexpr Time time_of(const Work& work, Ranks ranks, const Machine& machine,
                                     std::size_t scalar_bytes)
{
  Time time;
  const auto within = [&](const Transfer& t) {
    return t.within(machine.ranks_per_node, ranks.active);
  };
  const auto travel = [&](const Transfer& t) {
    return seconds(t, ranks.active, machine, scalar_bytes);
  };
  const auto multiply = [&](const LocalGemm& gemm) {
    return (gemm.flops() / machine.rate(scalar_bytes) +
            gemm.touched() * double(scalar_bytes) / machine.memory_bandwidth) /
           machine.cores_to_multiply(ranks);
  };

  double link = 0;  // when it is free
  double pieces = 1;
  for (const auto& t : work.transfers)
  {
    (within(t) ? time.inside : time.across) += travel(t);
    if (within(t) || !detail::is_operand(t)) continue;
    pieces = link == 0 ? t.pieces() : std::min(pieces, t.pieces());
    link += travel(t);
  }
  const auto& products = time.across > 0 ? work.far_products : work.products;
  for (std::size_t i = 0; i < products.size(); ++i)
  {
    const double product = multiply(products[i]);
    time.products += product;
    if (i == 0)
      time.total = std::max(product, link + product / pieces);
    else
      time.total += product;
    for (const auto& t : work.transfers)
    {
      if (within(t) || detail::is_operand(t)) continue;
      if (t.matrix != detail::result_of(i, products.size())) continue;
      link = std::max(link, time.total - product * (1 - 1 / t.pieces())) + travel(t);
    }
  }
  const double apart = time.products + time.across;
  time.total = machine.hidden * std::max(time.total, link) + (1 - machine.hidden) * apart;
  time.total += time.inside;
  return time;
}

}  // namespace cubist
