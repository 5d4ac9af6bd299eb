// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The loop of a training run. The program computes the loss and the gradients of a micro-batch; the
// trainer does everything else.
//
//   Trainer trainer{model, optimizer, {.steps = 1000, .clip = 1, .checkpoints = "run1"}};
//   const TrainingRun run = trainer.run([&](const MicroBatch& batch) {
//     return model.compute_gradients(data.batch(batch.index), length, batch.gradient_scale);
//   });
//   return run.exit_code();
//
// A step:
//   1. gradients of each micro-batch; their mean
//   2. loss scale: a step whose gradients overflow is skipped
//   3. clipping by the global norm
//   4. checks of numerics (NumericsMonitor)
//   5. learning rate of the step; update by the optimizer
//   6. a line of the log; where due, a checkpoint and a report, whose metrics the line then has too
//
// A run goes on from its newest checkpoint, on any scheme, mesh and backend. SIGTERM and SIGUSR1
// end it after the step, with a checkpoint and an exit code for job scripts (stop_signal.hpp).
//
// Words of a step in addition to the program's: 1 for stopping, those of clip_gradients.hpp if
// gradients are clipped or scaled, and those of the optimizer and of checks.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cubist/core/error.hpp"
#include "cubist/dist/state.hpp"
#include "cubist/io/checkpoints.hpp"
#include "cubist/nn/parameter.hpp"
#include "cubist/training/clip_gradients.hpp"
#include "cubist/training/gradient_accumulation.hpp"
#include "cubist/training/learning_rate.hpp"
#include "cubist/training/loss_scale.hpp"
#include "cubist/training/numerics_monitor.hpp"
#include "cubist/training/progress.hpp"
#include "cubist/training/run_log.hpp"
#include "cubist/training/stop_signal.hpp"
#include "cubist/training/trainer_options.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

/// Whether an optimizer takes the gradients itself, as Sharded does.
template <class O>
concept TakesGradients = requires(O& optimizer)
{
  optimizer.micro_batches();
};

}  // namespace detail

/// @tparam Model a network: MLP, Transformer, or with the same parameters() and append_state()
/// @tparam O an optimizer of its parameters, or `Sharded`
template <class Model, class O>
class Trainer
{
 public:
  using Value = typename Model::Value;
  using Mesh = typename Model::Mesh;

  /// Every rank of the mesh makes one.
  /// @pre model and optimizer outlive it
  /// @throws ArgumentError for options out of range
  Trainer(Model& model, O& optimizer, TrainerOptions options)
      : options_{std::move(options)},
        parameters_{model.parameters()}, mesh_{require_some(parameters_).front().value.mesh},
        optimizer_{optimizer}, checkpoints_{mesh_, options_.checkpoints, {.keep = options_.keep}},
        monitor_{options_.monitor}, state_{state_of(model, optimizer)}
  {
    options_.check();
    if constexpr (detail::TakesGradients<O>)
      require<ArgumentError>(optimizer.micro_batches() == options_.micro_batches, "got steps of ",
                             options_.micro_batches, " micro-batches and an optimizer for ",
                             optimizer.micro_batches(),
                             ", so it would update too early or too late; give both the same");
    else if (options_.micro_batches > 1)
      accumulation_.emplace(parameters_, options_.micro_batches);
    if (options_.learning_rate) rate_.emplace(*options_.learning_rate).append_state(state_);
    if (options_.loss_scale) scale_.emplace(*options_.loss_scale).append_state(state_);
  }
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// The state that checkpoints save. A program may add its own before `run`.
  [[nodiscard]] State<Value, Mesh>& state() { return state_; }

  /// Trains up to the last step, from the newest checkpoint if there is one.
  /// @param compute_gradients computes those of a micro-batch, and returns its loss
  /// @param evaluate returns NamedValues for the report after a step, and for the step's line of
  /// the log; it is called on every rank
  /// @throws what these, the monitor and checkpoints throw
  template <class Gradients, class Evaluate>
  TrainingRun run(Gradients compute_gradients, Evaluate evaluate)
  {
    TrainingRun run;
    if (!mesh_.active()) return run;
    const bool saves = !options_.checkpoints.empty();
    run.first = run.steps = saves ? checkpoints_.load(state_).value_or(0) : 0;
    if (reports() && run.first > 0)
      std::printf("goes on from step %llu\n", static_cast<unsigned long long>(run.first));
    std::fflush(stdout);
    RunLog log = is_root() && !options_.log.empty() ? RunLog{options_.log} : RunLog{};
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
      step.values.push_back({"seconds", seconds_since(begin)});
      log.append(run.steps, step.values);
      if (saves && (last || run.stopped || is_due(run.steps, options_.save_every)))
        checkpoints_.save(run.steps, state_);
      window.add(step.loss);
      if (!is_due(run.steps, options_.report_every) && !(last && options_.report_every > 0))
        continue;
      ProgressReport report =
          window.report(mesh_, static_cast<double>(options_.samples * options_.micro_batches));
      report.step = run.steps;
      report.steps = options_.steps;
      report.unit = options_.unit;
      const std::vector<NamedValue> metrics = evaluate(run.steps);
      // This line replaces the step's first one. If the run is killed meanwhile, the first one
      // remains.
      if (!metrics.empty()) log.append(run.steps, with_metrics(step.values, metrics));
      if (reports()) std::printf("%s\n", to_string(report, metrics).c_str());
      std::fflush(stdout);
      window = {};
    }
    if (reports() && run.stopped)
      std::printf("stopped by a signal after step %llu\n",
                  static_cast<unsigned long long>(run.steps));
    std::fflush(stdout);
    return run;
  }
  template <class Gradients>
  TrainingRun run(Gradients compute_gradients)
  {
    return run(std::move(compute_gradients),
               [](std::uint64_t) { return std::vector<NamedValue>{}; });
  }

 private:
  using Clock = std::chrono::steady_clock;
  using Files = decltype(Checkpoints{std::declval<const Mesh&>(), std::filesystem::path{}});

  [[nodiscard]] static double seconds_since(Clock::time_point begin)
  {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

  struct Step
  {
    double loss = 0;
    std::vector<NamedValue> values;  // for the log
  };

  /// The values of a step's line and the program's metrics, none of which replaces a value.
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

  static const Parameters<Value, Mesh>& require_some(const Parameters<Value, Mesh>& parameters)
  {
    require<ArgumentError>(
        !parameters.empty(),
        "got a network without parameters, which cannot be trained; give one that has some");
    return parameters;
  }
  [[nodiscard]] static bool is_due(std::uint64_t step, std::uint64_t every)
  {
    return every != 0 && step % every == 0;
  }
  [[nodiscard]] bool is_root() const { return mesh_.rank() == 0; }
  [[nodiscard]] bool reports() const { return is_root() && options_.report_every > 0; }

  /// The step after `done` others.
  template <class Gradients>
  Step train(std::uint64_t done, Gradients& compute_gradients)
  {
    Step step;
    const double scale = scale_ ? scale_->value() : 1;
    for (std::size_t i = 0; i < options_.micro_batches; ++i)
      step.loss += compute_gradients(MicroBatch{done * options_.micro_batches + i, scale});
    step.loss /= static_cast<double>(options_.micro_batches);
    step.values.push_back({"loss", step.loss});
    const auto& gradients = parameters_with_gradients();

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
      step.values.push_back({"learning_rate", optimizer_.options().learning_rate = rate_->next()});
    if (skips) return step;
    if constexpr (detail::TakesGradients<O>)
    {
      monitor_.check(done + 1, step.loss, gradients, parameters_);
      optimizer_.step(factor);
    }
    else
    {
      monitor_.check(done + 1, step.loss, gradients);
      optimizer_.step(parameters_, factor);
    }
    return step;
  }

  [[nodiscard]] const Parameters<Value, Mesh>& parameters_with_gradients()
  {
    if constexpr (detail::TakesGradients<O>)
      return optimizer_.parameters();
    else
      return parameters_;
  }

  TrainerOptions options_;
  Parameters<Value, Mesh> parameters_;
  Mesh mesh_;
  O& optimizer_;
  Files checkpoints_;
  NumericsMonitor monitor_;
  State<Value, Mesh> state_;
  std::optional<GradientAccumulation<Value, Mesh>> accumulation_;
  std::optional<LearningRate> rate_;
  std::optional<LossScale> scale_;
};

}  // namespace cubist::CUBIST_ABI
