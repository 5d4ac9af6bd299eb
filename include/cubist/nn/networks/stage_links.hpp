// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The loop of a pipeline's stage: it computes the steps of a schedule (pipeline_schedule.hpp), and
// sends what neighbouring stages need to the ranks with its coordinates there.
//
//   piece k of all p v pieces is on stage k mod p
//
//   forward   receives X from piece k - 1, computes, and sends Y to piece k + 1
//   backward  receives dY from piece k + 1, computes, and sends dX to piece k - 1
//
// Messages are in flight under the steps before and after: a receive begins one step early, and a
// send ends when its memory is needed again. If a communicator's messages are not independent
// (comm/communicator.hpp), a receive begins with its step, and a send is alone or in one group with
// the receive from the same stage that follows it.
//
// Words of a rank on piece k: the blocks of Y and of dX, for each micro-batch.

#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "cubist/comm/communicator.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/mesh/stages.hpp"
#include "cubist/nn/networks/pipeline_schedule.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Computes the steps of a stage.
template <Scalar T>
class PipelineWork
{
 public:
  virtual ~PipelineWork() = default;

  /// The slot, the memory that a micro-batch has on this stage until its backward.
  [[nodiscard]] virtual std::size_t slot(const PipelineStep& step) const = 0;
  /// The matrix in which X of a forward arrives.
  [[nodiscard]] virtual std::span<T> input(const PipelineStep& step) = 0;
  /// Computes a forward; returns Y, which stays as it is until the backward.
  [[nodiscard]] virtual std::span<const T> forward(const PipelineStep& step) = 0;
  /// The matrix in which dY of a backward arrives.
  [[nodiscard]] virtual std::span<T> output_gradient(const PipelineStep& step) = 0;
  /// Computes a backward; returns dX, which stays as it is until the next forward in its slot.
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
  /// Every rank of the mesh makes one.
  /// @param first_trained  the first piece with a parameter that is trained: those before it have
  /// no backward
  /// @throws ArgumentError for several pieces on a communicator whose messages form groups
  StageLinks(const M& mesh, std::size_t pieces, std::size_t first_trained)
      : stage_{static_cast<std::size_t>(mesh.template coordinate<PipelineStage>())},
        stages_{static_cast<std::size_t>(stages_of(mesh))}, last_{stages_ * pieces - 1},
        first_trained_{first_trained}, activations_{mesh.template along<PipelineStage>()},
        gradients_{independent ? activations_.split(0, activations_.rank()) : activations_}
  {
    require<ArgumentError>(
        independent || pieces == 1, "got stages of ", pieces,
        " pieces on a communicator whose messages travel in groups, such as NCCL's, where groups "
        "would wait for one another; use 1 piece");
  }

  /// The number among all pieces.
  [[nodiscard]] std::size_t number(std::size_t piece) const { return piece * stages_ + stage_; }
  /// Whether piece k of all passes a gradient on to the one before it.
  [[nodiscard]] bool passes_gradient(std::size_t k) const { return k > first_trained_; }
  /// Whether piece k of all has a backward.
  [[nodiscard]] bool has_backward(std::size_t k) const { return k >= first_trained_; }
  /// The ranks with this one's coordinates, in the order of their stages.
  [[nodiscard]] Communicator& stages() { return activations_; }
  [[nodiscard]] std::size_t stage() const { return stage_; }

  /// Computes the steps. Every rank of the mesh calls it, with the schedule of its stage.
  template <Scalar T>
  void run(const std::vector<PipelineStep>& steps, PipelineWork<T>& work)
  {
    // An error leaves requests behind, which abandon their calls.
    std::vector<Sends> sends;
    const auto sends_of = [&](const PipelineStep& step) -> Sends& {
      const std::size_t slot = work.slot(step);
      if (sends.size() <= slot) sends.resize(slot + 1);
      return sends[slot];
    };
    std::optional<Request> next;
    if (independent && !steps.empty()) receive(steps.front(), work, next);
    for (std::size_t i = 0; i < steps.size(); ++i)
    {
      const PipelineStep& step = steps[i];
      if (!independent) receive(step, work, next);
      std::optional<Request> received = std::move(next);
      next.reset();
      if (received) received->wait();
      if (independent && i + 1 < steps.size()) receive(steps[i + 1], work, next);
      Sends& mine = sends_of(step);
      if (step.is_forward)
      {
        wait(mine.activations), wait(mine.gradients);
        const std::span<const T> y = work.forward(step);
        if (sends_activations(step))
          mine.activations.emplace(activations_.async_send(y, rank_after()));
      }
      else
      {
        wait(mine.activations);
        const std::span<const T> dx = work.backward(step);
        if (sends_gradients(step)) mine.gradients.emplace(gradients_.async_send(dx, rank_before()));
      }
      if (!independent && !joins(step, i + 1 < steps.size() ? &steps[i + 1] : nullptr))
        wait(mine.activations), wait(mine.gradients);
    }
    for (Sends& s : sends) wait(s.activations), wait(s.gradients);
  }

 private:
  /// The messages of the micro-batch in a slot.
  struct Sends
  {
    std::optional<Request> activations = {};
    std::optional<Request> gradients = {};
  };

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
  [[nodiscard]] bool sends_activations(const PipelineStep& step) const
  {
    return number(step.piece) < last_;
  }
  [[nodiscard]] bool sends_gradients(const PipelineStep& step) const
  {
    return passes_gradient(number(step.piece));
  }
  [[nodiscard]] bool receives(const PipelineStep& step) const
  {
    const std::size_t k = number(step.piece);
    return step.is_forward ? k > 0 : k < last_ && passes_gradient(k + 1);
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

  /// Whether the next step receives from the stage that this one sends to.
  [[nodiscard]] bool joins(const PipelineStep& step, const PipelineStep* next) const
  {
    return next != nullptr && next->is_forward != step.is_forward && receives(*next);
  }

  std::size_t stage_;
  std::size_t stages_;
  std::size_t last_;  // piece
  std::size_t first_trained_;
  Communicator activations_;
  Communicator gradients_;
};

}  // namespace cubist::CUBIST_ABI::detail
