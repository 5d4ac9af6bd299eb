// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The loop of a Trainer (trainer.hpp), which depends only on the scalar and the mesh, not on the
// network and the optimizer. A program sees only the base class, so that the compiled library can
// contain the rest.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cubist/core/error.hpp"
#include "cubist/core/instances.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/gradients/gradient_accumulation.hpp"
#include "cubist/gradients/parameter.hpp"
#include "cubist/io/checkpoints.hpp"
#include "cubist/matrix/state.hpp"
#include "cubist/training/clip_gradients.hpp"
#include "cubist/training/learning_rate.hpp"
#include "cubist/training/loss_scale.hpp"
#include "cubist/training/numerics_monitor.hpp"
#include "cubist/training/progress.hpp"
#include "cubist/training/run_log.hpp"
#include "cubist/training/stop_signal.hpp"
#include "cubist/training/trainer_options.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// The optimizer of a loop.
template <RealScalar T, class M>
class LoopOptimizer
{
 public:
  virtual ~LoopOptimizer() = default;
  /// The number of micro-batches in a step, for an optimizer that takes the gradients itself, as
  /// Sharded does.
  [[nodiscard]] virtual std::optional<std::size_t> micro_batches() const = 0;
  /// Forgets the micro-batches since the last step.
  virtual void restart() = 0;
  /// Returns the parameters with the gradients that a step reads.
  /// @param whole the network's parameters
  [[nodiscard]] virtual const Parameters<T, M>& with_gradients(const Parameters<T, M>& whole) = 0;
  /// @param base the schedule's rate after the warm-up; groups are scaled by rate / base
  virtual void set_learning_rate(double rate, double base) = 0;
  /// Updates the parameters from their gradients, multiplied by `factor`.
  virtual void step(const Parameters<T, M>& whole, double factor) = 0;
};

/// The interface of the loop that a Trainer runs.
template <RealScalar T, class M>
class AnyTrainingLoop
{
 public:
  /// Computes the gradients of a micro-batch, and returns its loss.
  using ComputeGradients = std::function<double(const MicroBatch&)>;
  /// Returns the metrics of the report after a step.
  using Evaluate = std::function<std::vector<NamedValue>(std::uint64_t)>;

  virtual ~AnyTrainingLoop() = default;
  [[nodiscard]] virtual State<T, M>& state() = 0;
  virtual TrainingRun run(const ComputeGradients& compute_gradients, const Evaluate& evaluate) = 0;
};

template <RealScalar T, class M>
class TrainingLoop final : public AnyTrainingLoop<T, M>
{
 public:
  using typename AnyTrainingLoop<T, M>::ComputeGradients;
  using typename AnyTrainingLoop<T, M>::Evaluate;

  TrainingLoop(Parameters<T, M> parameters, State<T, M> state,
               std::unique_ptr<LoopOptimizer<T, M>> optimizer, TrainerOptions options)
      : options_{std::move(options)},
        parameters_{std::move(parameters)},
        mesh_{require_some(parameters_).front().value.mesh},
        optimizer_{std::move(optimizer)},
        checkpoints_{
            mesh_,
            options_.checkpoints,
            {.keep = options_.keep, .copies = options_.copies, .in_flight = options_.in_flight}},
        monitor_{options_.monitor},
        state_{std::move(state)}
  {
    options_.check();
    if (const auto micro_batches = optimizer_->micro_batches())
      require<ArgumentError>(
          *micro_batches == options_.micro_batches, "got steps of ", options_.micro_batches,
          " micro-batches and an optimizer for ", *micro_batches,
          ", so it would update too early or too late; give both the same number");
    else if (options_.micro_batches > 1)
      accumulation_.emplace(parameters_, options_.micro_batches);
    if (options_.learning_rate) rate_.emplace(*options_.learning_rate).append_state(state_);
    if (options_.loss_scale) scale_.emplace(*options_.loss_scale).append_state(state_);
  }
  TrainingLoop(TrainingLoop&&) = delete;

  [[nodiscard]] State<T, M>& state() override { return state_; }

  TrainingRun run(const ComputeGradients& compute_gradients, const Evaluate& evaluate) override
  {
    TrainingRun run;
    if (!mesh_.active()) return run;
    const bool saves = !options_.checkpoints.empty();
    run.first = run.steps = saves ? checkpoints_.load(state_).value_or(0) : 0;
    if (run.first > 0) print("goes on from step " + std::to_string(run.first));
    RunLog log = is_root() && !options_.log.empty() ? RunLog{options_.log} : RunLog{};
    optimizer_->restart();
    if (accumulation_) accumulation_->restart();
    const StopSignal signal;
    ProgressWindow window;
    while (run.steps < options_.steps && !run.stopped)
    {
      const Clock::time_point begin = Clock::now();
      Step step = train(run.steps++, compute_gradients);
      run.losses.push_back(step.loss);
      const bool last = run.steps == options_.steps;
      run.stopped = signal.requested(mesh_) && !last;
      const std::chrono::duration<double> time = Clock::now() - begin;
      step.values.push_back({"seconds", time.count()});
      log.append(run.steps, step.values);
      if (saves && (last || run.stopped || is_due(run.steps, options_.save_every)))
        save(run, last || run.stopped);
      window.add(step.loss);
      if (!is_due(run.steps, options_.report_every) && !(last && options_.report_every > 0))
        continue;
      ProgressReport report =
          window.report(mesh_, static_cast<double>(options_.samples * options_.micro_batches));
      report.step = run.steps;
      report.steps = options_.steps;
      report.unit = options_.unit;
      const std::vector<NamedValue> metrics = evaluate(run.steps);
      // This line replaces the step's first one. If the run is killed before that, the first
      // one remains.
      if (!metrics.empty()) log.append(run.steps, with_metrics(step.values, metrics));
      print(to_string(report, metrics));
      window = {};
    }
    if (run.stopped) print("stopped by a signal after step " + std::to_string(run.steps));
    return run;
  }

 private:
  using Clock = std::chrono::steady_clock;
  using Files = Checkpoints<typename M::Axes, typename M::Backend>;

  struct Step
  {
    double loss = 0;
    std::vector<NamedValue> values;  // for the log
  };

  /// @param ends  whether this is the run's last checkpoint
  void save(TrainingRun& run, bool ends)
  {
    if (ends || !options_.save_in_background) return checkpoints_.save(run.steps, state_);
    if (checkpoints_.save_in_background(run.steps, state_)) return;
    ++run.skipped_saves;
    print("step " + std::to_string(run.steps) +
          " is not saved, because an earlier checkpoint is still being written");
  }

  /// Returns the values of a step's line followed by the program's metrics, none of which replaces
  /// a value.
  [[nodiscard]] static std::vector<NamedValue> with_metrics(std::vector<NamedValue> values,
                                                            const std::vector<NamedValue>& metrics)
  {
    for (NamedValue m : metrics)
    {
      const auto is_taken = [&](const NamedValue& v) { return v.name == m.name; };
      while (m.name == "step" || std::ranges::any_of(values, is_taken))
        m.name.insert(0, "evaluated ");
      values.push_back(std::move(m));
    }
    return values;
  }

  static const Parameters<T, M>& require_some(const Parameters<T, M>& parameters)
  {
    require<ArgumentError>(
        !parameters.empty(),
        "got a network without parameters, so there is nothing to train; give one that has some");
    return parameters;
  }
  [[nodiscard]] bool is_root() const { return mesh_.rank() == 0; }
  /// Prints a line on standard output if this rank reports.
  void print(const std::string& line) const
  {
    if (!is_root() || options_.report_every == 0) return;
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
  }

  /// Runs the step after `done` others.
  Step train(std::uint64_t done, const ComputeGradients& compute_gradients)
  {
    Step step;
    const double scale = scale_ ? scale_->value() : 1;
    for (std::size_t i = 0; i < options_.micro_batches; ++i)
      step.loss += compute_gradients(MicroBatch{done * options_.micro_batches + i, scale});
    step.loss /= static_cast<double>(options_.micro_batches);
    step.values.push_back({"loss", step.loss});
    const auto& gradients = optimizer_->with_gradients(parameters_);

    double factor = 1;
    bool skips = false;
    if (options_.clip > 0 || scale_)
    {
      double norm = gradient_norm(gradients);
      if (scale_)
      {
        const auto unscale = scale_->update(norm);
        skips = !unscale;
        factor = unscale.value_or(1);
        norm /= scale;
        step.values.push_back({"loss_scale", scale});
        step.values.push_back({"skipped", skips ? 1.0 : 0.0});
      }
      if (options_.clip > 0) factor *= clip_factor(norm, options_.clip);
      step.values.push_back({"gradient_norm", norm});
    }
    if (rate_)
    {
      const double rate = rate_->next();
      optimizer_->set_learning_rate(rate, rate_->base());
      step.values.push_back({"learning_rate", rate});
    }
    if (skips) return step;
    if (optimizer_->micro_batches())
      monitor_.check(done + 1, step.loss, gradients, parameters_);
    else
      monitor_.check(done + 1, step.loss, gradients);
    optimizer_->step(parameters_, factor);
    return step;
  }

  TrainerOptions options_;
  Parameters<T, M> parameters_;
  M mesh_;
  std::unique_ptr<LoopOptimizer<T, M>> optimizer_;
  Files checkpoints_;
  NumericsMonitor monitor_;
  State<T, M> state_;
  std::optional<GradientAccumulation<T, M>> accumulation_;
  std::optional<LearningRate> rate_;
  std::optional<LossScale> scale_;
};

/// Every rank of the mesh calls it.
/// @throws ArgumentError if there are no parameters, and for options out of range
template <RealScalar T, class M>
std::unique_ptr<AnyTrainingLoop<T, M>>
make_training_loop(const Parameters<T, M>& parameters, const State<T, M>& state,
                   std::unique_ptr<LoopOptimizer<T, M>> optimizer, const TrainerOptions& options)
{
  return std::make_unique<TrainingLoop<T, M>>(parameters, state, std::move(optimizer), options);
}

/// The instances of the compiled library (cubist/core/instances.hpp).
#define CUBIST_LOOP_INSTANCES(prefix, M, T)                                                        \
  CUBIST_INSTANCE(prefix, detail::make_training_loop<T, M>)
CUBIST_FOR_TRAINED_MESHES(CUBIST_LOOP_INSTANCES)

}  // namespace cubist::CUBIST_ABI::detail
