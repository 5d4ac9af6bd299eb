// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// What a planner knows of a machine: nodes of some cores, each node with its memory and one link to
// the others. The figures that come with it are those of a plain cluster of today: nodes of 16
// cores with AVX2, 128 GiB, and 100 Gbit/s between them. `cubist_bench collectives` measures those
// of a machine; machine_json.hpp reads them.

#include <algorithm>
#include <cstddef>
#include <limits>

#include "cubist/core/error.hpp"

namespace cubist
{

/// What messages need: seconds each, and bytes in a second.
struct Link
{
  double latency = 0;
  double bandwidth = 0;
};

/// Ranks that work, of those that were started; the others are idle.
struct Ranks
{
  int active = 1;
  int started = 1;
};

struct Machine
{
  /// Operations a second of one core that multiplies, in double.
  double flops = 40e9;
  /// How much faster it is in float.
  double float_factor = 2;
  /// Cores of a node, which its ranks share.
  double cores = 16;
  /// Nodes that share these cores: 1, but for containers and network namespaces of one machine.
  int nodes_sharing = 1;
  /// Consecutive ranks on a node.
  int ranks_per_node = 16;
  /// Between ranks of a node; the bandwidth is that of one core.
  Link inside{1e-6, 4e9};
  /// Between nodes; the bandwidth is that of a node, which its ranks share.
  Link across{2e-6, 12.5e9};
  /// The part of a message's time between nodes that passes under products; the rest takes the
  /// processors that multiply.
  double hidden = 1;
  /// Bytes a second that one core reads and writes while it multiplies.
  double memory_bandwidth = 8e9;
  /// Bytes of a node.
  double memory = 128.0 * (1 << 30);

  /// How many of so many ranks a node has.
  [[nodiscard]] constexpr int on_a_node(int ranks) const { return std::min(ranks, ranks_per_node); }

  /// How many of so many ranks share the cores of a node.
  [[nodiscard]] constexpr int on_the_cores(int ranks) const
  {
    return std::min(ranks, ranks_per_node * nodes_sharing);
  }

  /// The part of a core that each of so many ranks has for what it does alone.
  [[nodiscard]] constexpr double share(int ranks) const
  {
    return std::min(1.0, cores / on_the_cores(ranks));
  }

  /// The cores that a rank has to multiply: BLAS has as many threads as `launch` gives it, an equal
  /// share of the cores, whether all ranks work or not.
  [[nodiscard]] constexpr double cores_to_multiply(Ranks ranks) const
  {
    const int threads = std::max(1, static_cast<int>(cores) / on_the_cores(ranks.started));
    return std::min<double>(threads, cores / on_the_cores(ranks.active));
  }

  /// Bytes that a rank has.
  [[nodiscard]] constexpr double memory_per_rank(int ranks) const
  {
    return memory / on_a_node(ranks);
  }

  /// Operations a second of one core on numbers of so many bytes.
  [[nodiscard]] constexpr double rate(std::size_t scalar_bytes) const
  {
    return flops * (scalar_bytes <= sizeof(float) ? float_factor : 1);
  }
};

/// @throws ArgumentError for a figure of 0 or below, or one that is no number
inline void require_valid(const Machine& machine)
{
  const auto positive = [](const char* what, double value) {
    require<ArgumentError>(value > 0 && value <= std::numeric_limits<double>::max(), "got ", what,
                           " = ", value,
                           " for a machine, with which nothing would ever end, or all at once; use "
                           "a positive number");
  };
  positive("flops", machine.flops);
  positive("float_factor", machine.float_factor);
  positive("cores", machine.cores);
  positive("ranks_per_node", machine.ranks_per_node);
  positive("nodes_sharing", machine.nodes_sharing);
  positive("inside.bandwidth", machine.inside.bandwidth);
  positive("across.bandwidth", machine.across.bandwidth);
  positive("memory_bandwidth", machine.memory_bandwidth);
  positive("memory", machine.memory);
  require<ArgumentError>(machine.hidden >= 0 && machine.hidden <= 1,
                         "got hidden = ", machine.hidden,
                         " for a machine, but messages can pass under products in no more than all "
                         "of their time; use a number from 0 to 1");
  for (const double latency : {machine.inside.latency, machine.across.latency})
    require<ArgumentError>(latency >= 0, "got a latency of ", latency,
                           " s for a machine, but no message arrives before it is sent; use 0 or "
                           "more");
}

}  // namespace cubist
