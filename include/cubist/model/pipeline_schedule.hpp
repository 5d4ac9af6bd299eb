// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The order in which a stage of a pipeline computes: one forward pass and one backward pass in turn
// (1F1B).
//
//   stage s of p, m micro-batches, one piece of layers per stage:
//     1. min(m, p - 1 - s) forward passes
//     2. one forward pass and one backward pass in turn
//     3. the remaining backward passes
//
// A micro-batch has activations on a stage from its forward to its backward pass, so at most p - s
// micro-batches have activations there at a time. With v pieces per stage, each group of p
// micro-batches passes forward through all pieces in turn. A stage begins with
// (v - 1) p + 2 (p - 1 - s) forward passes.
//
// The bubble is (p - 1) / (v m + p - 1) of a step's time, for stages of equal cost and messages
// that take no time.
//
// Source: Narayanan et al., "Memory-Efficient Pipeline-Parallel DNN Training", arXiv 2006.09503
// (1F1B with flushes); "Efficient Large-Scale Language Model Training on GPU Clusters Using
// Megatron-LM", arXiv 2104.04473, section 2.2 (interleaved).

#include <algorithm>
#include <cstddef>
#include <vector>

#include "cubist/version.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// One forward or backward pass of a micro-batch through a piece.
struct PipelineStep
{
  bool is_forward = true;
  std::size_t micro_batch = 0;
  std::size_t piece = 0;  // its number among the pieces of this stage

  friend bool operator==(const PipelineStep&, const PipelineStep&) = default;
};

/// Returns the steps of a stage.
/// @pre with several pieces, the number of micro-batches is a multiple of the number of stages
[[nodiscard]] inline std::vector<PipelineStep> pipeline_schedule(std::size_t stage,
                                                                 std::size_t stages,
                                                                 std::size_t micro_batches,
                                                                 std::size_t pieces)
{
  const std::size_t all = micro_batches * pieces;
  const std::size_t before = std::min(
      all, pieces == 1 ? stages - 1 - stage : (pieces - 1) * stages + 2 * (stages - 1 - stage));
  // With one piece, the n-th forward pass is that of micro-batch n.
  const std::size_t turn = pieces == 1 ? 1 : stages;
  const auto step = [&](bool is_forward, std::size_t n) {
    const std::size_t in_round = n % (turn * pieces);
    const std::size_t piece = in_round / turn;
    return PipelineStep{is_forward, n / (turn * pieces) * turn + in_round % turn,
                        is_forward ? piece : pieces - 1 - piece};
  };
  std::vector<PipelineStep> steps;
  for (std::size_t n = 0; n < before; ++n) steps.push_back(step(true, n));
  for (std::size_t n = before; n < all; ++n)
  {
    steps.push_back(step(true, n));
    steps.push_back(step(false, n - before));
  }
  for (std::size_t n = all - before; n < all; ++n) steps.push_back(step(false, n));
  return steps;
}

/// Returns the steps of a stage that computes only outputs.
[[nodiscard]] inline std::vector<PipelineStep>
forward_schedule(std::size_t stages, std::size_t micro_batches, std::size_t pieces)
{
  std::vector<PipelineStep> steps;
  for (std::size_t first = 0; first < micro_batches; first += stages)
    for (std::size_t piece = 0; piece < pieces; ++piece)
      for (std::size_t i = first; i < std::min(first + stages, micro_batches); ++i)
        steps.push_back({true, i, piece});
  return steps;
}

/// Returns the end of the steps from step i on that share a group of messages, on communicators
/// whose messages form groups (comm/communicator.hpp). A group contains what its steps send and
/// what the steps of the next group receive. It contains one step or, with several pieces and more
/// micro-batches than stages, a forward pass and the backward pass after it, because groups of one
/// step would wait for one another in a circle.
[[nodiscard]] inline std::size_t end_of_group(const std::vector<PipelineStep>& steps, std::size_t i,
                                              std::size_t stages, std::size_t pieces)
{
  const auto forwards = static_cast<std::size_t>(std::count_if(
      steps.begin(), steps.end(), [](const PipelineStep& step) { return step.is_forward; }));
  const bool is_pair = pieces > 1 && forwards > pieces * stages && i + 1 < steps.size() &&
                       steps[i].is_forward && !steps[i + 1].is_forward;
  return std::min(i + (is_pair ? 2 : 1), steps.size());
}

/// Returns the largest number of micro-batches whose activations a piece keeps at any time.
[[nodiscard]] inline std::size_t most_in_flight(const std::vector<PipelineStep>& steps,
                                                std::size_t piece)
{
  std::size_t most = 0;
  std::size_t now = 0;
  for (const PipelineStep& step : steps)
    if (step.piece == piece)
    {
      now = step.is_forward ? now + 1 : now - std::min<std::size_t>(now, 1);
      most = std::max(most, now);
    }
  return most;
}

}  // namespace cubist::CUBIST_ABI::detail
