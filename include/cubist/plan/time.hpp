// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// How long a rank works on a machine, by a model of few terms. All coefficients are the machine's.
//
//   products  operations / rate + bytes touched / memory bandwidth, the latter for thin blocks
//   inside    messages x latency + bytes / bandwidth, between ranks of one node
//   across    the same between nodes, where those of a node's ranks that send share its link
//
// A rank multiplies on all cores that are its share. Inside a node it also copies, on one of them:
// the times add.
// Across nodes messages travel while ranks multiply, but for the first step of each transfer, which
// products wait for or which is left at the end, and for an all_reduce, which starts at the end:
//
//   seconds = max(products + inside, across) + first steps + all_reduce
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

/// Seconds of one direction of a layer.
[[nodiscard]] constexpr Time time_of(const Work& work, Ranks ranks, const Machine& machine,
                                     std::size_t scalar_bytes)
{
  Time time;
  for (const auto& product : work.products)
    time.products += (product.flops() / machine.rate(scalar_bytes) +
                      product.touched() * double(scalar_bytes) / machine.memory_bandwidth) /
                     machine.cores_to_multiply(ranks);
  double hidden = 0;
  double exposed = 0;
  for (const auto& t : work.transfers)
  {
    const double s = seconds(t, ranks.active, machine, scalar_bytes);
    const bool inside = t.within(machine.ranks_per_node, ranks.active);
    (inside ? time.inside : time.across) += s;
    if (inside) continue;
    const bool late = t.collective == Collective::all_reduce;
    (late ? exposed : hidden) += s;
    if (!late) exposed += s / t.steps();
  }
  time.total = std::max(time.products + time.inside, hidden) + exposed;
  return time;
}

}  // namespace cubist
