// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The energy that a step of a plan takes, and its price.
//
//   nodes    the nodes on which ranks were started, counted whole
//   busy     the share of a step in which a rank multiplies or passes over memory
//   energy   nodes x step x (idle_watts + (busy_watts - idle_watts) x busy)
//   price    nodes x step x hour_price
//
// A node with idle ranks takes less energy: the busy share is averaged over all ranks of the nodes.

#include <algorithm>

#include "cubist/core/error.hpp"
#include "cubist/machine/machine.hpp"
#include "cubist/plan/plan.hpp"

namespace cubist::CUBIST_ABI
{

/// The cost of a step, or of a run, in time, energy and money.
struct PlanEnergy
{
  double seconds = 0;         ///< the time
  double kilowatt_hours = 0;  ///< the energy of all nodes
  double price = 0;           ///< in the currency of the machine's price

  /// Returns the cost of this many steps.
  friend PlanEnergy operator*(double steps, const PlanEnergy& e)
  {
    return {steps * e.seconds, steps * e.kilowatt_hours, steps * e.price};
  }
};

/// Returns what a step of a plan costs.
/// @throws ArgumentError for a machine with neither watts nor a price
[[nodiscard]] inline PlanEnergy energy_of(const Plan& plan, const Machine& machine)
{
  require<ArgumentError>(
      machine.busy_watts > 0 || machine.hour_price > 0, "got the machine ", machine.name,
      ", which lists neither watts nor a price, so a step would cost nothing; add a node's "
      "idle_watts and busy_watts, or its hour_price, to the file");
  constexpr double seconds_of_an_hour = 3600;
  const int started = plan.ranks + plan.idle;
  const int on_a_node = machine.on_a_node(started);
  const int nodes = (started - 1) / on_a_node + 1;
  const double computes = std::min(plan.time.products + plan.time.passes, plan.seconds());
  const double busy = computes / plan.seconds() * plan.ranks / (double(nodes) * on_a_node);
  const double watts = machine.idle_watts + (machine.busy_watts - machine.idle_watts) * busy;
  const double hours = nodes * plan.seconds() / seconds_of_an_hour;
  return {plan.seconds(), hours * watts / 1000, hours * machine.hour_price};
}

}  // namespace cubist::CUBIST_ABI
