// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The options of a Trainer (trainer.hpp), what it passes to the program, and what it returns.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cubist/core/error.hpp"
#include "cubist/io/checkpoints.hpp"
#include "cubist/training/learning_rate.hpp"
#include "cubist/training/loss_scale.hpp"
#include "cubist/training/numerics_monitor.hpp"
#include "cubist/training/stop_signal.hpp"

namespace cubist::CUBIST_ABI
{

struct TrainerOptions
{
  /// The number of steps of the whole run, including those before a checkpoint.
  std::uint64_t steps = 0;
  /// The number of micro-batches in a step. A `Sharded` optimizer must be made for the same number.
  std::size_t micro_batches = 1;
  /// The learning rate of each step, which replaces the optimizer's and multiplies those of groups
  /// by the same factor; without it, rates do not change.
  std::optional<LearningRateOptions> learning_rate = {};
  /// The norm to which all gradients are clipped; 0: none.
  double clip = 0;
  /// The loss scale, for gradients in `half`.
  std::optional<LossScaleOptions> loss_scale = {};
  NumericsMonitorOptions monitor = {};  ///< which checks, and how often
  /// The folder of the checkpoints, from which a run also resumes; empty: no checkpoints.
  std::filesystem::path checkpoints = {};
  /// The number of steps from one checkpoint to the next; 0: only one at the end of the run.
  std::uint64_t save_every = 0;
  /// The number of checkpoints that are kept; 0: all.
  std::size_t keep = 2;
  /// Whether the run continues while a checkpoint is written (Checkpoints::save_in_background). The
  /// checkpoint at the end of the run, or after a signal, is complete when `run` returns.
  bool save_in_background = false;
  std::size_t copies = 1;  ///< CheckpointOptions::copies, for saves in the background
  /// What a save in the background does while an earlier one is in flight.
  SaveInFlight in_flight = SaveInFlight::wait;
  /// The number of steps from one report on standard output to the next; 0: no reports.
  std::uint64_t report_every = 0;
  /// The number of samples in a micro-batch, for reports.
  std::size_t samples = 0;
  std::string unit = "tokens";  ///< the name of samples in reports
  /// The file that gets a line of JSON for each step (run_log.hpp); empty: none.
  std::filesystem::path log = {};

  /// @throws ArgumentError for values out of range
  void check() const
  {
    require<ArgumentError>(micro_batches > 0, "got steps of 0 micro-batches, so they have no "
                                              "gradients; use at least 1");
    require<ArgumentError>(
        clip >= 0, "got a norm of ", clip,
        " to clip gradients to, so nothing would be left of them; use a positive number, or 0 for "
        "no clipping");
  }
};

/// A micro-batch, whose gradients the program computes.
struct MicroBatch
{
  std::uint64_t index = 0;    ///< its number in the run, from 0: the same data on every mesh
  double gradient_scale = 1;  ///< the factor for the loss's gradient (scale_gradient)
};

/// How a run ended.
struct TrainingRun
{
  std::uint64_t first = 0;  ///< the step from which it resumed
  std::uint64_t steps = 0;  ///< the number of steps done, including those before `first`
  bool stopped = false;     ///< whether a signal stopped it before its last step
  /// The number of checkpoints that were skipped because an earlier one was in flight.
  std::uint64_t skipped_saves = 0;
  std::vector<double> losses;  ///< the losses of the steps since `first`

  /// The exit code for main(), which tells a job script whether to start the run again.
  [[nodiscard]] int exit_code() const { return stopped ? requeue_exit_code : 0; }
};

}  // namespace cubist::CUBIST_ABI
