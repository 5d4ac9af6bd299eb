// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The loop of a pipeline's stage: it computes the steps of a schedule (pipeline_schedule.hpp), and
// sends what neighbouring stages need to the ranks that have the same coordinates there.
//
//   piece k of all p v pieces is on stage k mod p
//
//   forward   receives X from piece k - 1, computes, and sends Y to piece k + 1
//   backward  receives dY from piece k + 1, computes, and sends dX to piece k - 1
//
// Messages overlap with other steps: a receive begins one step early, and a send ends when its
// memory is needed again.
//
// If a communicator's messages are not independent (comm/communicator.hpp), what a step sends and
// what the next one receives form one group, and the stage waits for it. With several pieces, and
// more micro-batches than stages, a forward pass and the backward pass after it form one group,
// because stages would otherwise wait for one another in a circle. Megatron-LM forms the same
// groups.
//
// Elements that one rank sends for piece k: its blocks of Y and of dX, for each micro-batch.

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cubist/comm/communicator.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/mesh/stages.hpp"
#include "cubist/model/pipeline_schedule.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Computes the steps of a stage.
template <Scalar T>
class PipelineWork
{
 public:
  virtual ~PipelineWork() = default;

  /// Returns the slot, the memory that a micro-batch occupies on this stage until its backward
  /// pass.
  [[nodiscard]] virtual std::size_t slot(const PipelineStep& step) const = 0;
  /// Returns the matrix that receives the X of a forward pass.
  [[nodiscard]] virtual std::span<T> input(const PipelineStep& step) = 0;
  /// Runs a forward pass. Returns Y, which does not change until the backward pass.
  [[nodiscard]] virtual std::span<const T> forward(const PipelineStep& step) = 0;
  /// Returns the matrix that receives the dY of a backward pass.
  [[nodiscard]] virtual std::span<T> output_gradient(const PipelineStep& step) = 0;
  /// Runs a backward pass. Returns dX, which does not change until the next forward pass in its
  /// slot.
  [[nodiscard]] virtual std::span<const T> backward(const PipelineStep& step) = 0;
};

/// The messages between the stages of a mesh.
template <HasStages M>
class StageLinks
{
  using Communicator = typename M::Communicator;
  using Request = decltype(std::declval<Communicator&>().async_barrier());
  static constexpr bool independent = independent_messages<Communicator>;

 public:
  /// Every rank of the mesh constructs one.
  /// @param first_trained the first piece with a trained parameter: those before it have no
  /// backward pass
  StageLinks(const M& mesh, std::size_t pieces, std::size_t first_trained)
      : stage_{static_cast<std::size_t>(mesh.template coordinate<PipelineStage>())},
        stages_{stages_of(mesh)},
        last_{stages_ * pieces - 1},
        first_trained_{first_trained},
        activations_{mesh.template along<PipelineStage>()},
        gradients_{independent ? activations_.split(0, activations_.rank()) : activations_}
  {
  }

  /// The number of this stage's piece among all pieces.
  [[nodiscard]] std::size_t number(std::size_t piece) const { return piece * stages_ + stage_; }
  /// Whether piece k, counted over all stages, passes a gradient to the piece before it.
  [[nodiscard]] bool passes_gradient(std::size_t k) const { return k > first_trained_; }
  /// Whether piece k, counted over all stages, has a backward pass.
  [[nodiscard]] bool has_backward(std::size_t k) const { return k >= first_trained_; }
  /// The ranks with this one's coordinates, in the order of their stages.
  [[nodiscard]] Communicator& stages() { return activations_; }
  [[nodiscard]] std::size_t stage() const { return stage_; }

  /// Runs the steps. Every rank of the mesh calls it, with the schedule of its stage. An error
  /// names the stage and the step.
  template <Scalar T>
  void run(const std::vector<PipelineStep>& steps, PipelineWork<T>& work)
  {
    const PipelineStep* now = steps.data();
    try
    {
      if constexpr (independent)
        compute(steps, work, now);
      else
        compute_in_groups(steps, work, now);
    }
    catch (Error& error)
    {
      if (now != nullptr) error.add_place(text(*now));
      throw;
    }
  }

 private:
  /// The sends in flight of the micro-batch in a slot.
  struct Sends
  {
    std::optional<Request> activations = {};
    std::optional<Request> gradients = {};
  };

  /// @param now  is set to each step as it begins
  template <Scalar T>
  void compute(const std::vector<PipelineStep>& steps, PipelineWork<T>& work,
               const PipelineStep*& now)
  {
    // After an error, the requests that are not complete abandon their calls.
    std::vector<Sends> sends;
    const auto sends_of = [&](const PipelineStep& step) -> Sends& {
      const std::size_t slot = work.slot(step);
      if (sends.size() <= slot) sends.resize(slot + 1);
      return sends[slot];
    };
    std::optional<Request> next;
    if (!steps.empty()) receive(steps.front(), work, next);
    for (std::size_t i = 0; i < steps.size(); ++i)
    {
      const PipelineStep& step = steps[i];
      now = &step;
      std::optional<Request> received = std::move(next);
      next.reset();
      if (received) received->wait();
      if (i + 1 < steps.size()) receive(steps[i + 1], work, next);
      Sends& mine = sends_of(step);
      if (step.is_forward)
      {
        wait(mine.activations), wait(mine.gradients);
        send(step, work.forward(step), mine.activations);
      }
      else
      {
        wait(mine.activations);
        send(step, work.backward(step), mine.gradients);
      }
    }
    for (Sends& s : sends) wait(s.activations), wait(s.gradients);
  }

  /// @param now  is set to each step as it begins
  template <Scalar T>
  void compute_in_groups(const std::vector<PipelineStep>& steps, PipelineWork<T>& work,
                         const PipelineStep*& now)
  {
    const std::size_t pieces = (last_ + 1) / stages_;
    const auto end_from = [&](std::size_t i) { return end_of_group(steps, i, stages_, pieces); };
    std::array<std::optional<Request>, 4> group;
    const auto receive_from = [&](std::size_t i) {
      const std::size_t end = end_from(i);
      for (std::size_t j = i; j < end; ++j) receive(steps[j], work, group[2 + j - i]);
    };
    const auto wait_for_all = [&] {
      for (auto& request : group) wait(request);
    };
    receive_from(0);
    wait_for_all();
    for (std::size_t i = 0; i < steps.size();)
    {
      const std::size_t end = end_from(i);
      std::array<std::span<const T>, 2> outputs;
      for (std::size_t j = i; j < end; ++j)
      {
        now = &steps[j];
        outputs[j - i] = steps[j].is_forward ? work.forward(steps[j]) : work.backward(steps[j]);
      }
      for (std::size_t j = i; j < end; ++j) send(steps[j], outputs[j - i], group[j - i]);
      receive_from(end);
      wait_for_all();
      i = end;
    }
  }

  /// "in the forward pass of micro-batch 2 on stage 1 of 4, whose input comes from stage 0"
  [[nodiscard]] std::string text(const PipelineStep& step) const
  {
    const std::string name = step.is_forward ? "forward pass" : "backward pass";
    std::string all = "in the " + name + " of micro-batch " + std::to_string(step.micro_batch) +
                      " on stage " + std::to_string(stage_) + " of " + std::to_string(stages_);
    if (!receives(step)) return all;
    const int from = step.is_forward ? rank_before() : rank_after();
    return all + ", whose " + (step.is_forward ? "input" : "gradient") + " comes from stage " +
           std::to_string(from);
  }

  static void wait(std::optional<Request>& request)
  {
    if (request) request->wait();
    request.reset();
  }

  [[nodiscard]] int rank_after() const { return static_cast<int>((stage_ + 1) % stages_); }
  [[nodiscard]] int rank_before() const
  {
    return static_cast<int>((stage_ + stages_ - 1) % stages_);
  }
  [[nodiscard]] bool sends(const PipelineStep& step) const
  {
    const std::size_t k = number(step.piece);
    return step.is_forward ? k < last_ : passes_gradient(k);
  }
  [[nodiscard]] bool receives(const PipelineStep& step) const
  {
    const std::size_t k = number(step.piece);
    return step.is_forward ? k > 0 : k < last_ && passes_gradient(k + 1);
  }

  template <Scalar T>
  void send(const PipelineStep& step, std::span<const T> output, std::optional<Request>& request)
  {
    if (!sends(step)) return;
    if (step.is_forward)
      request.emplace(activations_.async_send(output, rank_after()));
    else
      request.emplace(gradients_.async_send(output, rank_before()));
  }
  template <Scalar T>
  void receive(const PipelineStep& step, PipelineWork<T>& work, std::optional<Request>& request)
  {
    if (!receives(step)) return;
    if (step.is_forward)
      request.emplace(activations_.async_receive(work.input(step), rank_before()));
    else
      request.emplace(gradients_.async_receive(work.output_gradient(step), rank_after()));
  }

  std::size_t stage_;
  std::size_t stages_;
  std::size_t last_;  // last piece
  std::size_t first_trained_;
  Communicator activations_;
  Communicator gradients_;
};

}  // namespace cubist::CUBIST_ABI::detail
