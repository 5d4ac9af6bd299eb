// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The time of a plan by simulation: the real program runs on simulated ranks.

#include <cstddef>
#include <vector>

#include <cubist/plan/model.hpp>
#include <cubist/plan/plan.hpp>
#include <cubist/simulation/machine.hpp>

namespace cubist
{

struct SimulatedStep
{
  std::vector<std::size_t> sizes;  ///< of the layers of an MLP with bias and GELU
  std::size_t tokens = 1;
  bool training = true;  ///< forward and backward, or forward alone
  bool single = true;    ///< in float; else in double
};

/// A step of a transformer in float, with the loss and, in training, AdamW.
struct SimulatedTransformer
{
  TransformerStep step;
  bool training = true;
};

/// Seconds of a step on the scheme and mesh of a plan.
[[nodiscard]] double simulated_seconds(const Plan& plan, const SimulatedStep& step,
                                       const SimulatedMachine& machine);
[[nodiscard]] double simulated_seconds(const Plan& plan, const SimulatedTransformer& what,
                                       const SimulatedMachine& machine);

}  // namespace cubist
