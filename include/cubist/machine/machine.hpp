// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A machine: its cores and memory, and the links between ranks. The planner's formulas and the
// simulator use the same figures. The defaults describe nodes of 16 cores with AVX2 and 128 GiB,
// with 100 Gbit/s between them.
//
// Links are levels of a tree. The first level connects the ranks of a node, the next one the nodes
// of a rack or all nodes, and so on. At each level, a unit (a rank, a node, a rack) has one link in
// each direction, whose bandwidth all transfers into or out of the unit share. The planner knows
// two levels: the first one, and the last one between nodes. It ignores `call_seconds` and
// `core_seconds_per_message`; the simulator ignores `gemm`.
//
// `cubist_bench machine` measures these figures, except `write_bandwidth`. Set that by hand,
// because a job's disk is not the node's. machine_json.hpp reads and writes the figures.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cubist/core/block.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/finite.hpp"
#include "cubist/machine/gemm_rates.hpp"
#include "cubist/machine/rate_table.hpp"

namespace cubist::CUBIST_ABI
{

/// The links of one level.
struct Link
{
  std::string name = {};
  int ranks = 0;         ///< consecutive ranks that it connects; 0 for all
  double latency = 0;    ///< seconds of a message
  double bandwidth = 0;  ///< bytes per second, into and out of each unit
  /// The maximum number of bytes per second that one rank of a unit sends, or receives; 0 stands
  /// for `bandwidth`.
  double rank_bandwidth = 0;
  /// Seconds that a core spends on each byte that is sent, and on each that is received.
  double core_seconds_per_byte = 0;
  /// Seconds that a core spends on each message that is sent, and on each that is received.
  double core_seconds_per_message = 0;
  /// Whether transfers proceed while their ranks compute. If not, a rank copies what it receives
  /// when it waits for it, at `bandwidth`.
  bool overlaps = true;
};

/// The algorithms of collectives on several nodes.
enum class CollectiveAlgorithms : std::uint8_t
{
  mpi,  ///< comm/mpi/collectives: direct exchange, and chains in segments
  nccl  ///< rings; chains in segments; an all_reduce by trees where these are faster
};

/// The active ranks of a mesh, and all ranks that were started; the others are idle.
struct Ranks
{
  int active = 1;   ///< ranks of a node that take part
  int started = 1;  ///< ranks of a node that were started
};

/// The machine that ranks run on.
struct Machine
{
  std::string name = "16 cores";
  std::string source = {};            ///< where the figures come from
  double cores = 16;                  ///< the cores of a node, or its GPUs, which ranks share
  int nodes_sharing = 1;              ///< nodes that share these cores: namespaces of one machine
  double memory = 128.0 * (1 << 30);  ///< bytes of a node
  double memory_bandwidth = 8e9;      ///< bytes per second that one core, or GPU, reads and writes
  double node_memory_bandwidth = 0;   ///< the same for all ranks of a node together; 0 for no limit
  double write_bandwidth = 2e9;  ///< bytes per second to the checkpoint disk, all nodes together
  double idle_watts = 0;         ///< of a node whose ranks wait, including its share of the network
  double busy_watts = 0;         ///< of a node whose ranks compute
  double hour_price = 0;         ///< the price of a node for an hour, in any currency
  double call_seconds = 0;       ///< seconds of each call of the engine, such as a kernel launch
  double segment_bytes = 65'000;  ///< the size of a message in a pipelined chain
  bool shared_memory = true;      ///< whether ranks of a node can read each other's blocks
  CollectiveAlgorithms algorithms = CollectiveAlgorithms::mpi;  ///< the algorithms of collectives
  /// The links, from the innermost level to the outermost.
  std::vector<Link> links = {
      {.name = "memory", .ranks = 16, .latency = 1e-6, .bandwidth = 4e9, .overlaps = false},
      {.name = "network", .latency = 2e-6, .bandwidth = 12.5e9}};
  /// The rates of products of one core, or GPU, by the name of the scalar. A complex product counts
  /// as four real ones.
  std::map<std::string, RateTable, std::less<>> rates = {{"float", RateTable::peak(80e9)},
                                                         {"double", RateTable::peak(40e9)}};
  GemmRates gemm{};  ///< the rates of one core in a direct product

  /// The links between the ranks of a node.
  [[nodiscard]] const Link& inside() const { return links.front(); }
  /// The links between nodes.
  [[nodiscard]] const Link& across() const { return links.back(); }
  /// The number of consecutive ranks that the first links connect.
  [[nodiscard]] int ranks_per_node() const
  {
    const int ranks = inside().ranks;
    return ranks == 0 ? std::numeric_limits<int>::max() : ranks;
  }

  /// How many of this many ranks are on one node.
  [[nodiscard]] int on_a_node(int ranks) const { return std::min(ranks, ranks_per_node()); }
  /// How many of this many ranks share the cores of a node.
  [[nodiscard]] int on_the_cores(int ranks) const
  {
    const std::int64_t together = std::int64_t{on_a_node(ranks)} * nodes_sharing;
    return static_cast<int>(std::min<std::int64_t>(ranks, together));
  }
  /// Whether this many ranks are on one node and can read each other's memory.
  [[nodiscard]] bool shares_memory(int ranks) const
  {
    return shared_memory && ranks <= ranks_per_node();
  }
  /// The bytes of memory for each of this many ranks.
  [[nodiscard]] double memory_per_rank(int ranks) const { return memory / on_a_node(ranks); }

  /// The part of a core that each of this many ranks gets.
  [[nodiscard]] double share(int ranks) const { return std::min(1.0, cores / on_the_cores(ranks)); }
  /// The number of BLAS threads that each of this many ranks multiplies with.
  [[nodiscard]] int threads(int ranks) const
  {
    return std::max(1, static_cast<int>(std::min(cores, 1e9)) / on_the_cores(ranks));
  }
  /// The cores on which BLAS runs for one of the ranks that multiply. `launch` gives each rank an
  /// equal share of the cores as BLAS threads, whether the rank is active or not.
  [[nodiscard]] double cores_to_multiply(Ranks ranks) const
  {
    return std::min<double>(threads(ranks.started), cores / on_the_cores(ranks.active));
  }
  /// Whether the speed of a rank depends on what other ranks do, because there are more ranks than
  /// cores, or because messages occupy cores.
  [[nodiscard]] bool shares_cores(int ranks) const
  {
    const bool messages = std::ranges::any_of(links, [&](const Link& l) {
      return l.core_seconds_per_byte > 0 || l.core_seconds_per_message > 0;
    });
    return messages || on_the_cores(ranks) > cores;
  }

  /// The part of the time of messages between nodes that overlaps with products, for this many
  /// ranks. For the rest of the time, the messages occupy the cores that multiply.
  [[nodiscard]] double hidden(int ranks) const
  {
    const double nodes = double(on_the_cores(ranks)) / on_a_node(ranks);
    const double busy = 2 * nodes * across().core_seconds_per_byte * across().bandwidth / cores;
    return std::max(0.0, 1 - busy);
  }

  /// The bytes per second that each of this many ranks reads and writes.
  [[nodiscard]] double pass_bandwidth(int ranks) const
  {
    if (node_memory_bandwidth == 0) return memory_bandwidth;
    return std::min(memory_bandwidth, node_memory_bandwidth / on_the_cores(ranks));
  }

  /// The rates of products of a scalar.
  /// @throws ArgumentError for a scalar whose rates the machine lacks
  [[nodiscard]] const RateTable& rates_of(std::string_view scalar) const
  {
    const auto table = rates.find(scalar);
    require<ArgumentError>(table != rates.end(), "got a product of ", scalar, " on the machine ",
                           name,
                           ", which has no rates for it, so its time is unknown; measure them with "
                           "cubist_bench machine");
    return table->second;
  }
  /// The rates of products of scalars of this many bytes. For 2 bytes, they are those of float
  /// unless the machine has rates of a 16-bit scalar.
  /// @throws ArgumentError for a size whose rates the machine lacks
  [[nodiscard]] const RateTable& rates_of(std::size_t scalar_bytes) const
  {
    using namespace std::string_view_literals;
    if (scalar_bytes > sizeof(float)) return rates_of("double"sv);
    if (scalar_bytes < sizeof(float))
      for (const auto scalar : {"bfloat16"sv, "half"sv})
        if (const auto table = rates.find(scalar); table != rates.end()) return table->second;
    return rates_of("float"sv);
  }
  /// Returns the time of a product on one core, in seconds.
  /// @param table of this machine
  [[nodiscard]] double product_seconds(const RateTable& table, ProductSize size,
                                       std::size_t scalar_bytes) const
  {
    return table.seconds(size, double(scalar_bytes) / memory_bandwidth);
  }
};

/// Checks the figures of a machine.
/// @throws ArgumentError for a figure that is negative or not finite, for one that is 0 and must
/// not be, for levels of links that do not contain each other, and for a machine without rates
inline void require_valid(const Machine& machine)
{
  const auto at_least_0 = [&](const char* what, double value) {
    require<ArgumentError>(
        value >= 0 && is_finite(value), "got ", what, " = ", value, " for the machine ",
        machine.name,
        ", so times would be negative or infinite; use a finite number that is at least 0");
  };
  const auto positive = [&](const char* what, double value) {
    at_least_0(what, value);
    require<ArgumentError>(value > 0, "got ", what, " = 0 for the machine ", machine.name,
                           ", so nothing could be computed or sent; use a positive number");
  };
  positive("cores", machine.cores);
  positive("nodes_sharing", machine.nodes_sharing);
  positive("memory", machine.memory);
  positive("memory_bandwidth", machine.memory_bandwidth);
  at_least_0("node_memory_bandwidth", machine.node_memory_bandwidth);
  positive("write_bandwidth", machine.write_bandwidth);
  at_least_0("idle_watts", machine.idle_watts);
  at_least_0("busy_watts", machine.busy_watts);
  at_least_0("hour_price", machine.hour_price);
  at_least_0("call_seconds", machine.call_seconds);
  positive("segment_bytes", machine.segment_bytes);
  require<ArgumentError>(!machine.links.empty() && machine.links.back().ranks == 0, "got ",
                         machine.links.size(), " levels of links for the machine ", machine.name,
                         ", but the last one does not connect all ranks; give it ranks = 0");
  int below = 1;
  for (const auto& link : machine.links)
  {
    at_least_0("latency", link.latency);
    positive("bandwidth", link.bandwidth);
    at_least_0("rank_bandwidth", link.rank_bandwidth);
    at_least_0("core_seconds_per_byte", link.core_seconds_per_byte);
    at_least_0("core_seconds_per_message", link.core_seconds_per_message);
    if (&link == &machine.links.back()) break;
    require<ArgumentError>(link.ranks >= below && link.ranks % below == 0, "got a link ", link.name,
                           " of ", link.ranks, " ranks above units of ", below,
                           " ranks, which do not fit into it; use a multiple of their number");
    below = link.ranks;
  }
  require<ArgumentError>(!machine.rates.empty(), "got the machine ", machine.name,
                         " without rates of products, so their time is unknown; give it those "
                         "that cubist_bench machine measures");
  for (const auto& [scalar, table] : machine.rates) require_valid(table);
  for_each_figure(machine.gemm, [&](const std::string& name, auto figure) {
    positive(("gemm." + name).c_str(), static_cast<double>(figure));
  });
}

}  // namespace cubist::CUBIST_ABI
