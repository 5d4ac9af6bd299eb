// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// What a Trainer (trainer.hpp) is given, what it passes to the program, and what it returns.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cubist/core/error.hpp"
#include "cubist/training/learning_rate.hpp"
#include "cubist/training/loss_scale.hpp"
#include "cubist/training/numerics_monitor.hpp"
#include "cubist/training/stop_signal.hpp"

namespace cubist::CUBIST_ABI
{

struct TrainerOptions
{
  /// The steps of the whole run, which include those before a checkpoint.
  std::uint64_t steps = 0;
  /// How many micro-batches a step has. A `Sharded` optimizer is made for as many.
  std::size_t micro_batches = 1;
  /// Without one, the optimizer's stays.
  std::optional<LearningRateOptions> learning_rate = {};
  /// The largest norm of all gradients; 0: any.
  double clip = 0;
  /// For gradients in `half`.
  std::optional<LossScaleOptions> loss_scale = {};
  NumericsMonitorOptions monitor = {};  ///< which checks, and how often
  /// A folder to save to and to go on from; empty: none.
  std::filesystem::path checkpoints = {};
  /// Steps from one checkpoint to the next, beside the last one of the run; 0: only that.
  std::uint64_t save_every = 0;
  /// How many checkpoints are kept; 0: all.
  std::size_t keep = 2;
  /// Steps from one report on standard output to the next; 0: none.
  std::uint64_t report_every = 0;
  /// Samples of a micro-batch, and what they are, for reports.
  std::size_t samples = 0;
  std::string unit = "tokens";  ///< what samples are, in reports
  /// A file for a line of JSON of each step (run_log.hpp); empty: none.
  std::filesystem::path log = {};

  /// @throws ArgumentError for values out of range
  void check() const
  {
    require<ArgumentError>(micro_batches > 0, "got steps of 0 micro-batches, which have no "
                                              "gradients; use at least 1");
    require<ArgumentError>(clip >= 0, "got a norm of ", clip,
                           " to clip gradients to, which leaves nothing of them; use a positive "
                           "one, or 0 for none");
  }
};

/// What is computed at a time.
struct MicroBatch
{
  std::uint64_t index = 0;    ///< in the run, from 0: the same data on every mesh
  double gradient_scale = 1;  ///< by which the loss's gradient is multiplied (scale_gradient)
};

/// How a run ended.
struct TrainingRun
{
  std::uint64_t first = 0;     ///< the step that it went on from
  std::uint64_t steps = 0;     ///< done, those before `first` included
  bool stopped = false;        ///< by a signal, before its last step
  std::vector<double> losses;  ///< of the steps since `first`

  /// For main(): a job script can start the run again.
  [[nodiscard]] int exit_code() const { return stopped ? requeue_exit_code : 0; }
};

}  // namespace cubist::CUBIST_ABI
