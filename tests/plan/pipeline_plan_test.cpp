// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/plan/pipeline_plan.hpp"
#include "cubist/plan/transformer_cost.hpp"
#include "cubist/scheme/data_parallel.hpp"

#include "eight_blocks.hpp"
#include "machines.hpp"
#include "ranks.hpp"

namespace cubist::test::plan_pipeline_plan_test
{

using Stages = Pipeline<DataParallel<Summa2D>>;

static PlanOptions in(std::size_t micro_batches, std::size_t pieces = 1)
{
  return {.method = Method::collectives, .micro_batches = micro_batches, .pieces = pieces};
}

TEST_CASE("The bubble of a planned pipeline is (p - 1) / (v m + p - 1) of a step")
{
  const auto step = eight_blocks(16);
  const Machine machine = free_links();
  for (const std::size_t m : {4U, 8U, 16U})
    for (const std::size_t v : {1U, 2U})
    {
      CAPTURE(m, v);
      const Plan plan = plan_on<Stages>({4, 1, 1, 1}, step, 4, machine, in(m, v));
      CHECK(plan.micro_batches == m);
      CHECK(plan.pieces == v);
      CHECK(plan.bubble / plan.seconds() == Approx(3.0 / double(v * m + 3)).epsilon(0.03));
    }
}

TEST_CASE("Stages wait for the slowest of unequal pieces")
{
  const Machine machine = free_links();
  // The logits cost as much as a block, so the stages have pieces of 2 1 1 1 and of 1 1 1 2.
  for (const std::size_t m : {4U, 16U})
  {
    CAPTURE(m);
    auto step = eight_blocks(m);
    step.model.layers = 9;
    step.model.vocabulary = 1024 + 2 * 1024;
    const Plan plan = plan_on<Stages>({4, 1, 1, 1}, step, 4, machine, in(m, 2));
    const double all = 10, stage = 3, pieces = 2 + 2;
    const double waits = (all - stage) / 2 + (3 + 0.25 * double(m)) * (pieces - stage);
    CHECK(plan.bubble / plan.seconds() ==
          Approx(waits / (double(m) * stage + waits)).epsilon(0.05));
  }
}

TEST_CASE("A planned pipeline sends the elements of its layers, activations and a tied table")
{
  for (const bool tied : {false, true})
  {
    auto step = eight_blocks(8);
    step.model.tied = tied;
    const auto words = transformer_words<DataParallel<Summa2D>>({1, 2, 2}, step.batch, step.model);
    // On a stage of 2 x 2 ranks: H (512, 256), and the table (8, 256).
    const double between = 2 * 512.0 * 256;
    const double table = tied ? 2 * 8.0 * 256 : 0;
    const Plan plan = plan_on<Stages>({2, 1, 2, 2}, step, 8, {}, in(1));
    CHECK(plan.words * plan.ranks ==
          Approx(double(words.forward + words.backward) + between + table));
  }
}

TEST_CASE("Each micro-batch sends as much, except the sums of gradients, once a step")
{
  const auto words = [](std::size_t micro_batches) {
    const auto step = eight_blocks(4 * micro_batches);
    return plan_on<Stages>({2, 2, 2, 1}, step, 8, {}, in(micro_batches)).words;
  };
  CHECK(words(8) - words(4) == Approx(2 * (words(4) - words(2))));
  // A rank has half of a stage's parameters, and one replica, so it sends (d - 1) / d of them,
  // twice.
  const auto model = eight_blocks(1).model;
  const double sums = 2 * words(2) - words(4);
  CHECK(sums == Approx(double(model.parameters()) / 4).epsilon(0.02));
}

TEST_CASE("A stage keeps the activations of its micro-batches in flight")
{
  const auto activations = [](const PlanOptions& options, std::size_t sequences) {
    const Plan plan = plan_on<Stages>({4, 1, 1, 1}, eight_blocks(sequences), 4, {}, options);
    return plan.memory_parts.activations;
  };
  // Four micro-batches are in flight, however many there are.
  CHECK(activations(in(16), 16) == Approx(activations(in(4), 4)));
  CHECK(activations(in(4), 4) > 1.8 * activations(in(2), 2));
  CHECK(activations(in(4), 8) == Approx(2 * activations(in(4), 4)));
  // Stages with several pieces keep more.
  CHECK(activations(in(16, 2), 16) > 1.2 * activations(in(16), 16));
  auto recomputed = in(16);
  recomputed.recompute = 1;
  CHECK(activations(recomputed, 16) < 0.7 * activations(in(16), 16));
}

TEST_CASE("A stage has memory for the next input beside the one that it reads")
{
  const auto step = eight_blocks(8);
  auto one_block = step;
  one_block.model.layers = 1;
  auto evaluation = in(1);
  evaluation.training = false;
  const auto activations = [](const Plan& plan) { return plan.memory_parts.activations; };
  const double whole =
      activations(plan_on<DataParallel<Summa2D>>({1, 1, 1}, one_block, 1, {}, evaluation));
  const double last = activations(plan_on<Stages>({8, 1, 1, 1}, step, 8, {}, evaluation));
  // The last of eight stages has one block, too. It has these in place of the embedding's output.
  const double stream = double(step.batch.tokens() * step.model.width * evaluation.scalar_bytes);
  CHECK(last - whole == Approx(stream));
}

TEST_CASE("The planner chooses the fastest micro-batches and pieces that fit")
{
  const auto step = eight_blocks(16);
  const Machine machine = free_links();
  const Plan best = plan_on<Stages>({4, 1, 1, 1}, step, 4, machine, in(0, 0));
  CHECK(best.pieces == 2);
  for (const std::size_t m : {1U, 2U, 4U, 8U, 16U})
    CHECK(best.seconds() <= plan_on<Stages>({4, 1, 1, 1}, step, 4, machine, in(m)).seconds());
  Machine small = machine;
  small.memory = 0.9 * best.memory;
  const Plan fits = plan_on<Stages>({4, 1, 1, 1}, step, 4, small, in(0, 0));
  CHECK(fits.fits_memory);
  CHECK(fits.seconds() > best.seconds());
}

TEST_CASE("A plan has as many micro-batches as asked, with the work of all sequences")
{
  // 9 sequences in 4 micro-batches are 3 + 2 + 2 + 2.
  const auto of = [](std::size_t sequences, std::size_t micro_batches) {
    return plan_on<Stages>({4, 1, 1, 1}, eight_blocks(sequences), 4, free_links(),
                           in(micro_batches));
  };
  const Plan uneven = of(9, 4), one_by_one = of(9, 9);
  CHECK(uneven.micro_batches == 4);
  CHECK(uneven.flops == Approx(one_by_one.flops));
  CHECK(uneven.words == Approx(one_by_one.words));
  CHECK(uneven.seconds() > of(8, 4).seconds());
  CHECK(uneven.seconds() < of(12, 4).seconds());
  CHECK(uneven.memory_parts.activations == of(12, 4).memory_parts.activations);
}

TEST_CASE("A plan of one stage has one piece, and one of an evaluation no empty micro-batch")
{
  CHECK(plan_on<Stages>({1, 1, 1, 1}, eight_blocks(6), 1, {}, in(3, 2)).pieces == 1);
  PlanOptions evaluation = in(8);
  evaluation.training = false;
  CHECK(plan_on<Stages>({2, 1, 1, 1}, eight_blocks(4), 2, {}, evaluation).micro_batches == 4);
}

TEST_CASE(
    "The last segment of a piece is not computed again, even where segments divide its blocks")
{
  const auto flops = [](std::size_t recompute, std::size_t pieces, bool training = true) {
    auto options = in(2, pieces);
    options.recompute = recompute;
    options.training = training;
    return plan_on<Stages>({2, 1, 1, 1}, eight_blocks(2), 2, {}, options).flops;
  };
  // Two stages of four blocks, on a rank each; the logits are 8 columns beside blocks of 12 x 256.
  const double kept = flops(0, 1);
  const double forward = flops(0, 1, false) / 4;
  CHECK(flops(1, 1) - kept == Approx(3 * forward).epsilon(0.01));
  CHECK(flops(2, 1) - kept == Approx(2 * forward).epsilon(0.01));
  CHECK(flops(4, 1) == kept);
  // Two pieces of two blocks.
  CHECK(flops(1, 2) - kept == Approx(2 * forward).epsilon(0.01));
  CHECK(flops(2, 2) == Approx(kept));
}

TEST_CASE("A plan has no more micro-batches than sequences")
{
  const auto step = eight_blocks(4);
  PlanOptions evaluation = in(4, 2);
  evaluation.training = false;
  const Plan four = plan_on<Stages>({2, 1, 1, 1}, step, 2, {}, evaluation);
  // The number of stages divides four, but not five.
  for (const std::size_t wanted : {5U, 64U})
  {
    CAPTURE(wanted);
    CHECK(mentions(message_of<ArgumentError>([&] {
                     (void)plan_on<Stages>({2, 1, 1, 1}, step, 2, {}, in(wanted, 2));
                   }),
                   "got 2 stages", "at most as many micro-batches as sequences"));
    evaluation.micro_batches = wanted;
    const Plan many = plan_on<Stages>({2, 1, 1, 1}, step, 2, {}, evaluation);
    CHECK(many.micro_batches == 4);
    CHECK(many.seconds() == four.seconds());
    CHECK(many.memory == four.memory);
  }
}

TEST_CASE("The micro-batches that are tried are few, however many sequences there are")
{
  // Divisors up to 2^12, and the sequences divided by these; several pieces need even numbers.
  const auto choices = detail::pipeline_choices(eight_blocks(std::size_t{1} << 30U), 2, {});
  CHECK(choices.size() == 26 + 3 * 25);
}

TEST_CASE("A message between stages takes no less time than a rank's share of the network card")
{
  Machine machine = free_links();
  machine.links.front().ranks = 4;
  Link& across = machine.links.back();
  across.latency = 1;
  across.bandwidth = 100;
  const auto seconds = [&](int of_stage) {
    return detail::stage_message_seconds(machine, 16, of_stage, 1000);
  };
  // Four ranks of a node send at once, or all ranks of a stage if they are fewer.
  CHECK(seconds(8) == Approx(1 + 4 * 10));
  CHECK(seconds(1) == Approx(1 + 10));
  across.rank_bandwidth = 50;
  CHECK(seconds(8) == Approx(1 + 4 * 10));
  CHECK(seconds(1) == Approx(1 + 20));
  // Inside a node no network card is used.
  CHECK(detail::stage_message_seconds(machine, 4, 1, 1000) < 1e-3);

  // In a plan with four stages and four micro-batches there are 2 (p - 1) messages, and 2 (p - 1) /
  // p more for each micro-batch after the first.
  across.bandwidth = 1e12;
  across.rank_bandwidth = 0;
  machine.links.front().ranks = 1;
  const auto step = eight_blocks(4);
  const auto bubble = [&] { return plan_on<Stages>({4, 1, 1, 1}, step, 4, machine, in(4)).bubble; };
  const double fast = bubble();
  across.rank_bandwidth = 1e6;
  const double bytes = 4.0 * double(step.batch.length) * double(step.model.width);
  CHECK(bubble() - fast == Approx((6 + 3 * 1.5) * bytes * (1e-6 - 1e-12)));
}

TEST_CASE("A pipeline of more stages than blocks is refused")
{
  CHECK(mentions(message_of<ArgumentError>([] {
                   (void)plan_on<Stages>({16, 1, 1, 1}, eight_blocks(16), 16, {}, in(16));
                 }),
                 "got 16 stages for 8 blocks", "no number of pieces", "use fewer stages"));
  CHECK(mentions(message_of<ArgumentError>([] {
                   (void)plan_on<Stages>({4, 1, 1, 1}, eight_blocks(6), 4, {}, in(6, 2));
                 }),
                 "6 sequences", "a multiple of the stages'"));
  CHECK(mentions(message_of<ArgumentError>([] {
                   (void)plan_on<Stages>({2, 1, 1, 1}, eight_blocks(4), 2, {}, in(8));
                 }),
                 "4 sequences", "at most as many micro-batches as sequences"));
}

TEST_CASE("A stage has its part of a node, or whole nodes")
{
  Machine machine;  // 16 cores and ranks a node
  machine.node_memory_bandwidth = 8e10;
  const Machine quarter = detail::machine_of_stage(machine, 64, 4);
  CHECK(quarter.memory_per_rank(4) == Approx(machine.memory_per_rank(64)));
  CHECK(quarter.share(4) == Approx(machine.share(64)));
  CHECK(quarter.pass_bandwidth(4) == Approx(machine.pass_bandwidth(64)));
  CHECK(quarter.ranks_per_node() == 4);
  const Machine whole = detail::machine_of_stage(machine, 64, 32);
  CHECK(whole.memory == machine.memory);
  CHECK(whole.cores == machine.cores);
  CHECK(whole.ranks_per_node() == 16);
  // Stages that begin within a node have links between halves of nodes.
  CHECK(detail::machine_of_stage(machine, 72, 24).ranks_per_node() == 8);
}

TEST_CASE("The ranks of a node share its link to the next stage, even where a stage has more nodes")
{
  Machine machine;  // 16 ranks a node
  machine.links.back().latency = 1;
  machine.links.back().bandwidth = 8;
  CHECK(detail::stage_message_seconds(machine, 64, 4, 8) == 1 + 4);
  CHECK(detail::stage_message_seconds(machine, 64, 32, 8) == 1 + 16);
}

}  // namespace cubist::test::plan_pipeline_plan_test
