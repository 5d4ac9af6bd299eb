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
//   6. a line of the log; when due, a checkpoint and a report, whose metrics get a second line
//
// A run resumes from its newest checkpoint, on any scheme, mesh and backend. SIGTERM and SIGUSR1
// end it after the step, with a checkpoint and an exit code for job scripts (stop_signal.hpp).
//
// Elements that one rank sends in a step, in addition to the program's: what stop_signal.hpp sends,
// what clip_gradients.hpp sends if gradients are clipped or scaled, and what the optimizer and the
// checks send.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "cubist/gradients/parameter.hpp"
#include "cubist/matrix/state.hpp"
#include "cubist/training/run_log.hpp"
#include "cubist/training/trainer_options.hpp"
#include "cubist/training/training_loop.hpp"

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

template <class O>
class LoopOptimizerOf final : public LoopOptimizer<typename O::Value, typename O::Mesh>
{
  using List = Parameters<typename O::Value, typename O::Mesh>;

 public:
  explicit LoopOptimizerOf(O& optimizer)
      : optimizer_{optimizer}
  {
  }

  [[nodiscard]] std::optional<std::size_t> micro_batches() const override
  {
    if constexpr (TakesGradients<O>)
      return optimizer_.micro_batches();
    else
      return std::nullopt;
  }
  void restart() override
  {
    if constexpr (requires { optimizer_.restart(); }) optimizer_.restart();
  }
  [[nodiscard]] const List& with_gradients(const List& whole) override
  {
    if constexpr (TakesGradients<O>)
      return optimizer_.parameters();
    else
      return whole;
  }
  void set_learning_rate(double rate, double base) override
  {
    if constexpr (requires { optimizer_.set_learning_rate(rate, base); })
      optimizer_.set_learning_rate(rate, base);
    else
      optimizer_.options().learning_rate = rate;
  }
  void step(const List& whole, double factor) override
  {
    if constexpr (TakesGradients<O>)
      optimizer_.step(factor);
    else
      optimizer_.step(whole, factor);
  }

 private:
  O& optimizer_;
};

}  // namespace detail

/// @tparam Model a network: MLP, Transformer, or a class with the same parameters() and
/// append_state()
/// @tparam O an optimizer of its parameters, or `Sharded`
template <class Model, class O>
class Trainer
{
 public:
  using Value = typename Model::Value;
  using Mesh = typename Model::Mesh;

  /// Every rank of the mesh constructs one.
  /// @pre model and optimizer outlive it
  /// @throws ArgumentError for options out of range
  Trainer(Model& model, O& optimizer, const TrainerOptions& options)
      : loop_{detail::make_training_loop<Value, Mesh>(
            model.parameters(), state_of(model, optimizer),
            std::make_unique<detail::LoopOptimizerOf<O>>(optimizer), options)}
  {
  }
  Trainer(Trainer&&) = delete;

  /// The state that checkpoints save. A program may add its own state before `run`.
  [[nodiscard]] State<Value, Mesh>& state() { return loop_->state(); }

  /// Trains up to the last step, from the newest checkpoint if there is one.
  /// @param compute_gradients computes the gradients of a micro-batch, and returns its loss
  /// @param evaluate returns NamedValues for the report after a step, and for the step's second
  /// line in the log; it is called on every rank
  /// @throws what these, the monitor and checkpoints throw
  template <class Gradients, class Evaluate>
  TrainingRun run(Gradients compute_gradients, Evaluate evaluate)
  {
    return loop_->run(std::ref(compute_gradients), std::ref(evaluate));
  }
  template <class Gradients>
  TrainingRun run(Gradients compute_gradients)
  {
    return loop_->run(std::ref(compute_gradients),
                      [](std::uint64_t) { return std::vector<NamedValue>{}; });
  }

 private:
  std::unique_ptr<detail::AnyTrainingLoop<Value, Mesh>> loop_;
};

}  // namespace cubist::CUBIST_ABI
