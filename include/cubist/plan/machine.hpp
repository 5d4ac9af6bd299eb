// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The figures of a machine that the planner's model takes: nodes of some cores, each node with its
// memory and one link to the others. The defaults describe nodes of 16 cores with AVX2 and 128 GiB,
// with 100 Gbit/s between them. `cubist_bench machine` measures a machine; machine_json.hpp reads
// what it writes.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

#include "cubist/algorithm/direct/gemm_rates.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/finite.hpp"

namespace cubist::CUBIST_ABI
{

/// The time of messages.
struct Link
{
  double latency = 0;    // seconds of each
  double bandwidth = 0;  // bytes a second
};

/// The active ranks of a mesh, and all that were started; the difference is idle.
struct Ranks
{
  int active = 1;   ///< ranks of a node that take part
  int started = 1;  ///< ranks of a node that were started
};

struct Machine
{
  double flops = 40e9;      ///< operations a second of one core in a matrix product, in double
  double float_factor = 2;  ///< the speed in float, relative to double
  double cores = 16;        ///< of a node, which its ranks share
  /// Nodes that share these cores: 1, but for containers and network namespaces of one machine.
  int nodes_sharing = 1;
  int ranks_per_node = 16;    ///< consecutive ranks, which can read each other's memory
  Link inside{1e-6, 4e9};     ///< between ranks of a node; the bandwidth is that of one core
  Link across{2e-6, 12.5e9};  ///< between nodes; the ranks of a node share the bandwidth
  /// The part of the time of messages between nodes that overlaps with products; during the rest
  /// the messages occupy the processors that multiply.
  double hidden = 1;
  double memory_bandwidth = 8e9;      ///< bytes a second of one core while it multiplies
  double memory = 128.0 * (1 << 30);  ///< bytes of a node
  GemmRates gemm{};                   ///< of one core in a direct product

  /// How many of so many ranks are on one node.
  [[nodiscard]] constexpr int on_a_node(int ranks) const { return std::min(ranks, ranks_per_node); }

  /// How many of so many ranks share the cores of a node.
  [[nodiscard]] constexpr int on_the_cores(int ranks) const
  {
    const std::int64_t together = std::int64_t{ranks_per_node} * nodes_sharing;
    return static_cast<int>(std::min<std::int64_t>(ranks, together));
  }

  /// The part of a core that each of so many ranks has.
  [[nodiscard]] constexpr double share(int ranks) const
  {
    return std::min(1.0, cores / on_the_cores(ranks));
  }

  /// The cores on which BLAS runs for one of the ranks that multiply. `launch` gives each rank an
  /// equal share of the cores as threads of BLAS, whether the rank is active or not.
  [[nodiscard]] constexpr double cores_to_multiply(Ranks ranks) const
  {
    const int threads =
        std::max(1, static_cast<int>(std::min(cores, 1e9)) / on_the_cores(ranks.started));
    return std::min<double>(threads, cores / on_the_cores(ranks.active));
  }

  /// Whether so many ranks are on one node, where they can read each other's memory.
  [[nodiscard]] constexpr bool shares_memory(int ranks) const { return ranks <= ranks_per_node; }

  /// Bytes of memory for each of so many ranks.
  [[nodiscard]] constexpr double memory_per_rank(int ranks) const
  {
    return memory / on_a_node(ranks);
  }

  /// Floating-point operations a second of one core, for elements of so many bytes.
  [[nodiscard]] constexpr double rate(std::size_t scalar_bytes) const
  {
    return flops * (scalar_bytes <= sizeof(float) ? float_factor : 1);
  }
};

/// Calls f(name, figure) for every figure; a dot separates the name of a group.
template <class M, class F>
constexpr void for_each_figure(M& machine, F f)
{
  f("flops", machine.flops);
  f("float_factor", machine.float_factor);
  f("cores", machine.cores);
  f("ranks_per_node", machine.ranks_per_node);
  f("nodes_sharing", machine.nodes_sharing);
  f("inside.latency", machine.inside.latency);
  f("inside.bandwidth", machine.inside.bandwidth);
  f("across.latency", machine.across.latency);
  f("across.bandwidth", machine.across.bandwidth);
  f("hidden", machine.hidden);
  f("memory_bandwidth", machine.memory_bandwidth);
  f("memory", machine.memory);
  auto& gemm = machine.gemm;
  f("gemm.products", gemm.products);
  f("gemm.result", gemm.result);
  f("gemm.pack_a_float", gemm.pack_a_float);
  f("gemm.pack_b_float", gemm.pack_b_float);
  f("gemm.pack_a_double", gemm.pack_a_double);
  f("gemm.pack_b_double", gemm.pack_b_double);
  f("gemm.copy", gemm.copy);
  f("gemm.window", gemm.window);
  f("gemm.shared_core", gemm.shared_core);
  f("gemm.panel_bytes", gemm.panel_bytes);
  f("gemm.cache_bytes", gemm.cache_bytes);
}

/// @throws ArgumentError for a figure that is not positive or not finite; a latency may be 0, and
/// `hidden` is from 0 to 1
inline void require_valid(const Machine& machine)
{
  for_each_figure(machine, [](std::string_view name, const auto& figure) {
    const auto value = static_cast<double>(figure);
    if (name == "hidden")
      require<ArgumentError>(value >= 0 && value <= 1, "got hidden = ", value,
                             " for a machine, but no more than all of the time of messages can "
                             "overlap with products; use a number from 0 to 1");
    else if (name.ends_with("latency"))
      require<ArgumentError>(value >= 0, "got a latency of ", value,
                             " s for a machine, but no message arrives before it is sent; use 0 "
                             "or more");
    else
      require<ArgumentError>(value > 0 && is_finite(value), "got ", name, " = ", value,
                             " for a machine, with which a prediction would be infinite or zero; "
                             "use a positive number");
  });
}

}  // namespace cubist::CUBIST_ABI
