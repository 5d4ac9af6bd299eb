// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Finds the time and the memory of a plan by simulation: the real program runs on simulated ranks.

#include <cstddef>
#include <string>
#include <vector>

#include <cubist/machine/machine.hpp>
#include <cubist/plan/model.hpp>
#include <cubist/plan/plan.hpp>

namespace cubist
{

struct SimulatedStep
{
  std::vector<std::size_t> sizes;  ///< the sizes of the layers of an MLP with bias and GELU
  std::size_t tokens = 1;
  bool training = true;       ///< forward and backward, or only forward
  bool single = true;         ///< whether in float or in double
  bool is_short = false;      ///< in 16 bits; the memory is still that of float
  bool sharded = false;       ///< replicas share the state of the optimizer
  std::size_t recompute = 0;  ///< layers in a segment, whose activations are recomputed
  bool all_replicas = false;  ///< also simulate replicas that do the same work
};

/// One step of a transformer in float, with the loss and, in training, AdamW.
struct SimulatedTransformer
{
  TransformerStep step;
  bool training = true;
  bool sharded = false;
  std::size_t recompute = 0;
  std::size_t context_parallel = 0;  ///< ranks that share a sequence, as in TransformerOptions
  bool all_replicas = false;         ///< also simulate replicas that do the same work
  std::string trace = {};            ///< the file for a trace of the step; empty for none
  /// The rank of LoRA's matrices beside all linear layers, which are then all that is trained; 0
  /// for none.
  std::size_t lora = 0;
};

struct SimulatedCost
{
  double seconds = 0;        ///< the time of a step
  double memory = 0;         ///< the peak memory of a rank, in bytes, with AdamW in training
  std::string folding = {};  ///< which replicas were simulated, and why
};

/// Continues in the program that contains the simulator, unless this one does. (The simulator takes
/// minutes to compile.)
/// @throws DataError if that program is missing
void start_simulator(char** argv);

/// Returns what a step costs on the scheme and mesh of a plan.
[[nodiscard]] SimulatedCost simulated_cost(const Plan& plan, const SimulatedStep& step,
                                           const Machine& machine);
[[nodiscard]] SimulatedCost simulated_cost(const Plan& plan, const SimulatedTransformer& what,
                                           const Machine& machine);

}  // namespace cubist
