// SPDX-License-Identifier: BSD-3-Clause
#include <map>

#include "cubist/nn/pipeline/stage_links.hpp"

#include "ranks.hpp"

namespace cubist::test::stage_links_test
{

using M = AxisMesh<Axes<PipelineStage, Row>, TestBackend>;
using detail::PipelineStep;
using Numbers = std::map<std::size_t, double>;  // each stays in its place

/// Turns x into 10 x + k + 1 in piece k, forward and backward, so that a number tells which way it
/// went.
class Digits : public detail::PipelineWork<double>
{
 public:
  Digits(detail::StageLinks<M>& links, std::size_t slots)
      : links_{links},
        slots_{slots}
  {
  }

  Numbers outputs;    // of micro-batches, on the last piece
  Numbers gradients;  // of micro-batches, on the first piece

  [[nodiscard]] std::size_t slot(const PipelineStep& step) const override
  {
    return step.piece * slots_ + step.micro_batch % slots_;
  }
  [[nodiscard]] std::span<double> input(const PipelineStep& step) override
  {
    return {&x_[incoming(step)], 1};
  }
  [[nodiscard]] std::span<const double> forward(const PipelineStep& step) override
  {
    const std::size_t k = links_.number(step.piece);
    const double x = k == 0 ? static_cast<double>(step.micro_batch + 1) : x_.at(incoming(step));
    y_[slot(step)] = outputs[step.micro_batch] = 10 * x + static_cast<double>(k + 1);
    return {&y_[slot(step)], 1};
  }
  [[nodiscard]] std::span<double> output_gradient(const PipelineStep& step) override
  {
    return {&dy_[incoming(step)], 1};
  }
  [[nodiscard]] std::span<const double> backward(const PipelineStep& step) override
  {
    const std::size_t k = links_.number(step.piece);
    const double dy =
        is_last(step) ? static_cast<double>(step.micro_batch + 1) : dy_.at(incoming(step));
    dx_[slot(step)] = gradients[step.micro_batch] = 10 * dy + static_cast<double>(k + 1);
    return {&dx_[slot(step)], 1};
  }

  std::size_t last = 0;  // the last piece

 private:
  [[nodiscard]] bool is_last(const PipelineStep& step) const
  {
    return links_.number(step.piece) == last;
  }
  /// The buffer of a step's input. There is one more than slots, as a receive begins a step early.
  [[nodiscard]] std::size_t incoming(const PipelineStep& step) const
  {
    return step.piece * (slots_ + 1) + step.micro_batch % (slots_ + 1);
  }

  detail::StageLinks<M>& links_;
  std::size_t slots_;
  Numbers x_, y_, dy_, dx_;
};

/// Checks which way all numbers go through this many stages.
static Findings check(TestBackend::Communicator& world, std::size_t stages, std::size_t pieces,
                      std::size_t micro_batches)
{
  Findings found;
  const M mesh{world, {static_cast<int>(stages), world.size() / static_cast<int>(stages)}, 1};
  detail::StageLinks<M> links{mesh, pieces, 0};
  const auto steps = detail::pipeline_schedule(links.stage(), stages, micro_batches, pieces);
  std::size_t slots = 1;
  for (std::size_t c = 0; c < pieces; ++c)
    slots = std::max(slots, detail::most_in_flight(steps, c));
  Digits digits{links, slots};
  digits.last = stages * pieces - 1;
  links.run(steps, digits);
  double forward = 0, backward = 0;
  for (std::size_t i = 0; i < micro_batches; ++i)
  {
    forward = backward = static_cast<double>(i + 1);
    for (std::size_t k = 0; k < stages * pieces; ++k)
    {
      forward = 10 * forward + static_cast<double>(k + 1);
      backward = 10 * backward + static_cast<double>(stages * pieces - k);
    }
    if (links.stage() == stages - 1)
      found.check(digits.outputs[i] == forward, "Y of micro-batch ", i, " is ", digits.outputs[i]);
    if (links.stage() == 0)
      found.check(digits.gradients[i] == backward, "dX of micro-batch ", i, " is ",
                  digits.gradients[i]);
    found.check(true, "");
  }
  return found;
}

TEST_CASE("activations pass through the stages in their order, and gradients back")
{
  for (const std::size_t stages : {1U, 2U, 4U})
    for (const std::size_t micro_batches : {1U, 2U, 4U, 7U})
    {
      const int ranks = stages == 2 ? 4 : static_cast<int>(stages);
      if (!fits(ranks)) continue;
      CAPTURE(stages, micro_batches);
      require_clear(on_ranks<TestBackend>(ranks, [&](TestBackend::Communicator& world) {
        return check(world, stages, 1, micro_batches);
      }));
    }
}

TEST_CASE("activations pass through several pieces of each stage in turn")
{
  for (const std::size_t stages : {2U, 4U})
    for (const std::size_t pieces : {2U, 3U})
    {
      if (!fits(static_cast<int>(stages))) continue;
      CAPTURE(stages, pieces);
      require_clear(
          on_ranks<TestBackend>(static_cast<int>(stages), [&](TestBackend::Communicator& world) {
            return check(world, stages, pieces, 2 * stages);
          }));
    }
}

/// Fails in the backward pass of a micro-batch.
class Failing final : public Digits
{
 public:
  using Digits::Digits;

  [[nodiscard]] std::span<const double> backward(const PipelineStep& step) override
  {
    if (step.micro_batch == 1 && fails)
      throw NumericError{"got a NaN, so no step is possible; lower the learning rate"};
    return Digits::backward(step);
  }

  bool fails = false;
};

TEST_CASE("an error of a stage names the stage and what it computed")
{
  if (!fits(2)) return;
  const std::string message = message_of<Error>([] {
    (void)on_ranks<TestBackend>(2, [](TestBackend::Communicator& world) {
      const M mesh{world, {2, 1}, 1};
      detail::StageLinks<M> links{mesh, 1, 0};
      Failing digits{links, 2};
      digits.last = 1;
      digits.fails = links.stage() == 1;
      links.run(detail::pipeline_schedule(links.stage(), 2, 4, 1), digits);
      return 0;
    });
  });
  CHECK(mentions(message, "rank 1: got a NaN",
                 "in the backward pass of micro-batch 1 on stage 1 of 2"));
}

}  // namespace cubist::test::stage_links_test
