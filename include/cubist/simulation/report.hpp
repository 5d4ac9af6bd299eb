// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The report of a simulation: for each rank, how long it ran, what it did in that time, what it
// sent, and the memory that it needed.

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "cubist/comm/traffic.hpp"

namespace cubist::CUBIST_ABI
{

/// The report of one simulated rank.
struct SimulatedRankReport
{
  double seconds = 0;           ///< from the launch to the end of its body
  double products = 0;          ///< seconds in products
  double passes = 0;            ///< seconds in element-wise passes over memory
  double copies = 0;            ///< seconds in which it copied what other ranks of its node sent
  double waits = 0;             ///< seconds in which it waited for other ranks and for messages
  double flops = 0;             ///< floating-point operations of its products
  Traffic traffic;              ///< what the rank sent
  std::size_t memory = 0;       ///< bytes of matrices at the end of its body
  std::size_t peak_memory = 0;  ///< the most bytes of matrices at any time
};

/// The report of a simulated launch.
struct SimulationReport
{
  std::vector<SimulatedRankReport> ranks;  ///< a folded rank has the report of its representative
  std::string folding;                     ///< which replicas were simulated, and why

  /// The time at which the last rank ended, in seconds.
  [[nodiscard]] double seconds() const
  {
    double last = 0;
    for (const auto& r : ranks) last = std::max(last, r.seconds);
    return last;
  }
  /// The peak memory of the rank that needs the most, in bytes.
  [[nodiscard]] std::size_t peak_memory() const
  {
    std::size_t most = 0;
    for (const auto& r : ranks) most = std::max(most, r.peak_memory);
    return most;
  }
};

}  // namespace cubist::CUBIST_ABI
