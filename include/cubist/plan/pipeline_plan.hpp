// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Plans a training step of a transformer in the stages of a pipeline (scheme/pipeline.hpp). It
// plans each stage for one micro-batch on the stage's mesh, as transformer_plan.hpp does.
//
//   stages        p meshes of scheme S, side by side; blocks are cut into p v pieces, as in
//                 networks (model/pipeline_options.hpp)
//   t_s           the seconds that stage s takes to pass a micro-batch forward and backward and to
//                 add up gradients on each rank; L: the seconds of one message to the next stage
//   time          m max t_s + (sum of t_s - max t_s) / v. For equal stages, the bubble is
//                 (p - 1) / (v m + p - 1) of it. If pieces are unequal, stages also wait for the
//                 slowest one of each piece: (3 p / 4 + m / 4) (sum of the pieces' slowest times -
//                 max t_s). The first p micro-batches go through one piece after the other. Later
//                 ones overlap forward passes in one piece with backward passes in another, which
//                 leaves a quarter of the wait. For models of 24 to 80 blocks on 2 to 16 stages,
//                 this is within 14 % of the schedule's time, and 3 % on average. Stages also wait
//                 for messages: 2 (p - 1) L for the first micro-batch and, with one piece,
//                 2 L (p - 1) / p for each later one, because p micro-batches share a round trip of
//                 p t + 2 (p - 1) L. The sums of gradients over replicas and the optimizer take
//                 their time once per step.
//   memory        that of the stage that needs the most: its parameters, the sums of their
//                 gradients, and what its micro-batches in flight keep, at most p - s of them on
//                 stage s
//   sent          by one rank: the elements of the blocks, (p v - 1) / p of its block of
//                 activations for each micro-batch and direction, and a tied table's gradient twice
//
// Source: Narayanan et al., arXiv 2104.04473, section 2.2; L: a round trip of a micro-batch.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <numeric>
#include <optional>
#include <vector>

#include "cubist/core/error.hpp"
#include "cubist/machine/machine.hpp"
#include "cubist/model/pipeline_options.hpp"
#include "cubist/model/pipeline_schedule.hpp"
#include "cubist/plan/model.hpp"
#include "cubist/plan/plan.hpp"
#include "cubist/plan/reason.hpp"
#include "cubist/plan/time.hpp"
#include "cubist/plan/transformer_parts.hpp"
#include "cubist/plan/transformer_plan.hpp"
#include "cubist/scheme/pipeline.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

/// Returns the machine as the `of_stage` consecutive ranks of one stage see it. If they do not fill
/// whole nodes, it has only their part of a node.
[[nodiscard]] inline Machine machine_of_stage(const Machine& machine, int ranks, int of_stage)
{
  const int node = machine.on_a_node(ranks);
  const int part = node == ranks ? of_stage : std::gcd(node, of_stage);
  const double share = double(part) / node;
  Machine m = machine;
  m.links.front().ranks = part;
  m.memory *= share;
  if (m.links.size() > 1) m.links.back().bandwidth *= share;
  const double cores = double(m.on_the_cores(of_stage)) / machine.on_the_cores(ranks);
  m.cores *= cores;
  m.node_memory_bandwidth *= cores;
  return m;
}

/// Returns the seconds of a message of this many bytes from every rank of a stage to the next
/// stage.
[[nodiscard]] inline double stage_message_seconds(const Machine& machine, int ranks, int of_stage,
                                                  double bytes)
{
  const Link& inside = machine.inside();
  if (machine.on_a_node(ranks) == ranks)
    return (inside.latency + bytes / inside.bandwidth) / machine.share(ranks);
  const Link& across = machine.across();
  const double senders = std::min(of_stage, machine.ranks_per_node());
  double transfer = bytes * senders / across.bandwidth;
  if (across.rank_bandwidth > 0) transfer = std::max(transfer, bytes / across.rank_bandwidth);
  return across.latency + transfer;
}

/// The number of micro-batches in a step, and of pieces on each stage.
struct PipelineChoice
{
  std::size_t micro_batches = 1;
  std::size_t pieces = 1;
};

/// Returns the choices for this many stages, grouped by their number of micro-batches; empty if
/// there are too few blocks.
[[nodiscard]] inline std::vector<PipelineChoice>
pipeline_choices(const TransformerStep& step, std::size_t stages, const PlanOptions& options)
{
  const std::size_t sequences = step.batch.sequences;
  // For a batch of more than 4096^2 sequences, this skips some divisors.
  constexpr std::size_t most = 4096;
  std::vector<std::size_t> numbers;
  const std::size_t fixed = options.micro_batches;
  if (fixed > 0)
  {
    // As in networks, each micro-batch of a training step has at least one sequence.
    if (fixed <= sequences || !options.training) numbers.push_back(std::min(fixed, sequences));
  }
  else
    for (std::size_t m = 1; m <= most && m * m <= sequences; ++m)
      if (sequences % m == 0)
      {
        numbers.push_back(m);
        if (m * m != sequences) numbers.push_back(sequences / m);
      }
  std::vector<std::size_t> pieces{1, 2, 3, 4};
  if (options.pieces > 0) pieces = {stages == 1 ? 1 : options.pieces};
  std::vector<PipelineChoice> choices;
  for (const std::size_t m : numbers)
    for (const std::size_t v : pieces)
      if (v * stages <= step.model.layers && (v == 1 || (stages > 1 && m % stages == 0)))
        choices.push_back({m, v});
  return choices;
}

/// A part of a stage for one micro-batch: a block, or what comes before the first block or after
/// the last.
struct StagePart
{
  Plan cost = {};        // for a micro-batch whose gradients are added up on each rank
  StepCost sums = {};    // what sums over replicas add once per step: time, words and messages
  double elements = 0;   // parameters whose optimizer's state a rank holds
  double workspace = 0;  // bytes of the workspace that each micro-batch in flight has

  /// Adds a part n times, but not its memory for micro-batches in flight.
  void add(const StagePart& other, double n)
  {
    cost += n * other.cost;
    sums += n * other.sums;
    auto& memory = cost.memory_parts;
    const auto& added = other.cost.memory_parts;
    memory.parameters += n * added.parameters;
    memory.gradients += n * added.gradients;
    memory.optimizer += n * added.optimizer;
    memory.workspace += n * (added.workspace - other.workspace);
    elements += n * other.elements;
  }
};

/// Replaces the cost of a micro-batch by its weighted mean with the cost of a smaller one.
/// @param share  the share of the smaller ones among the micro-batches
inline void average(StepCost& cost, const StepCost& smaller, double share)
{
  cost.time += -share * Time{cost.time};
  cost.time += share * smaller.time;
  for (const auto figure :
       {&StepCost::words, &StepCost::messages, &StepCost::flops, &StepCost::needed})
    cost.*figure += share * (smaller.*figure - cost.*figure);
}

/// Plans stages on one mesh for a number of micro-batches.
template <SchemeType S>
class PipelinePlanner
{
 public:
  /// @param machine  the whole machine  @param extents  the extents of a stage
  PipelinePlanner(const Plan& empty, const typename S::Axes::Array& extents,
                  const TransformerStep& step, const Machine& machine, const PlanOptions& options,
                  std::size_t micro_batches)
      : empty_{empty},
        extents_{extents},
        step_{step},
        machine_{machine},
        options_{options},
        stages_{static_cast<std::size_t>(empty.stages)},
        of_stage_{machine_of_stage(machine, empty.ranks, S::Axes::ranks(extents))},
        batches_{step.batch.sequences, micro_batches},
        p_{static_cast<double>(empty.stages)},
        m_{static_cast<double>(micro_batches)},
        parts_{parts_of(batches_.rows_of(0))}
  {
    make_parts(parts_);
    mean_stream_ = stream_;
    const std::size_t larger = batches_.rows % batches_.count;
    if (larger == 0) return;
    // The larger micro-batches determine the memory.
    PipelinePlanner smaller = *this;
    smaller.make_parts(parts_of(batches_.rows_of(larger)));
    const double share = 1 - static_cast<double>(larger) / m_;
    average(block_.cost, smaller.block_.cost, share);
    average(input_.cost, smaller.input_.cost, share);
    average(output_.cost, smaller.output_.cost, share);
    average(again_, smaller.again_, share);
    mean_stream_ += share * (smaller.stream_ - stream_);
  }

  [[nodiscard]] std::size_t micro_batches() const { return batches_.count; }

  /// Returns the plan for stages of this many pieces, by the formulas at the top of this header.
  [[nodiscard]] Plan plan(std::size_t pieces) const
  {
    const auto begins = cut_in_pieces(block_costs(parts_.model()), stages_, {.pieces = pieces});
    std::vector<Stage> stages;
    for (std::size_t s = 0; s < stages_; ++s) stages.push_back(make_stage(s, begins, pieces));

    Plan plan = empty_;
    plan.micro_batches = batches_.count;
    plan.pieces = pieces;
    plan.weight_copies = block_.cost.weight_copies;
    plan.method = block_.cost.method;
    plan.moves_weights = block_.cost.moves_weights;
    plan.moves_activations = true;
    plan.note = attention_note(parts_);
    double sum_t = 0;
    double max_t = 0;
    Time slowest;
    for (const Stage& s : stages)
    {
      plan.needed += m_ * s.all.cost.needed;
      plan.words += (m_ * s.all.cost.words + s.all.sums.words) / p_;
      plan.messages += (m_ * s.all.cost.messages + s.all.sums.messages) / p_;
      plan.flops += m_ * s.all.cost.flops / p_;
      if (s.memory.total() > plan.memory_parts.total()) plan.memory_parts = s.memory;
      const Time& t = s.all.cost.time;
      sum_t += t.total;
      if (t.total > max_t) max_t = t.total, slowest = t;
      const Time once = time_once(s);
      if (once.total >= plan.time.total) plan.time = once;
    }
    const double waits = add_messages(plan, pieces);
    plan.bubble = (sum_t - max_t) / static_cast<double>(pieces) + waits +
                  (0.75 * p_ + 0.25 * m_) * (sum_of_slowest_pieces(stages) - max_t);
    plan.time += m_ * slowest;
    plan.time.total += plan.bubble;
    (machine_.on_a_node(plan.ranks) == plan.ranks ? plan.time.inside : plan.time.across) += waits;
    if (options_.training && options_.muon)
      add_muon(plan, muon_matrices(parts_, ceil_div(step_.model.layers, stages_), options_.lora),
               of_stage_, options_);
    complete(plan, machine_);
    return plan;
  }

 private:
  using Parts = TransformerParts<S>;

  /// A stage of the mesh.
  struct Stage
  {
    StagePart all = {};  // all parts, for a micro-batch
    MemoryParts memory = {};
    std::vector<double> pieces = {};  // the seconds of each piece
    double last = 0;                  // the seconds of the sums that begin when backward ends
  };

  [[nodiscard]] Parts parts_of(std::size_t sequences) const
  {
    return {extents_, {sequences, step_.batch.length}, step_.model, options_.context_parallel};
  }
  /// Makes the parts of a stage for a micro-batch.
  void make_parts(const Parts& parts)
  {
    using Planner = TransformerPlanner<S>;
    stream_ = static_cast<double>(parts.stream().block.size());
    block_ = make(parts, [](Planner& planner) { planner.add_block(); });
    output_ = make(parts, [](Planner& planner) { planner.add_output(); });
    input_ =
        make(parts, [&](Planner& planner) { planner.add_input(!step_.model.tied || stages_ > 1); });
    const auto ring = make(parts, [](Planner& planner) { planner.add_ring_workspace(); });
    ring_workspace_ = ring.cost.memory_parts.workspace;
    if (options_.training && options_.recompute > 0)
      again_ = recomputation_cost(on_stage(), parts, 1, of_stage_, options_);
  }
  /// Returns the part that `add` adds to a TransformerPlanner.
  template <class Add>
  [[nodiscard]] StagePart make(const Parts& parts, Add add) const
  {
    StagePart part;
    part.cost = on_stage();
    TransformerPlanner<S> planner{parts, part.cost, of_stage_, options_, false};
    add(planner);
    part.elements = planner.parameters();
    part.workspace = planner.products_workspace();
    if (!options_.training) return part;
    Plan with_sums = on_stage();
    TransformerPlanner<S> whole{parts, with_sums, of_stage_, options_};
    add(whole);
    part.sums = with_sums;
    part.sums.time += -1.0 * part.cost.time;
    part.sums.words -= part.cost.words;
    part.sums.messages -= part.cost.messages;
    part.sums.flops = part.sums.needed = 0;
    part.cost.time.room = with_sums.time.room;
    if (accumulates())  // reads a gradient and the sum, and writes the sum
      add_passes(part.cost.time, 3 * part.cost.memory_parts.parameters / bytes(1));
    return part;
  }

  /// @param begins  the first block of each piece
  [[nodiscard]] Stage make_stage(std::size_t s, const std::vector<std::size_t>& begins,
                                 std::size_t pieces) const
  {
    Stage stage;
    auto& [all, memory, of_pieces, last] = stage;
    last = block_.sums.time.sums;
    const bool training = options_.training;
    // Later rounds of micro-batches have no more in flight than the first four.
    const auto steps =
        training ? pipeline_schedule(s, stages_, std::min(batches_.count, 4 * stages_), pieces)
                 : std::vector<PipelineStep>{};
    double kept = 0;       // bytes of activations
    double workspace = 0;  // bytes of micro-batches in flight
    for (std::size_t c = 0; c < pieces; ++c)
    {
      const std::size_t k = c * stages_ + s;
      const bool is_first = k == 0;
      const bool is_last = k + 1 == stages_ * pieces;
      const std::size_t n = begins[k + 1] - begins[k];
      const double before = all.cost.time.total;
      all.add(block_, double(n));
      all.cost += static_cast<double>(recomputed_blocks(n, options_)) * again_;
      if (is_first)
      {
        all.add(input_, 1);
        if (input_.sums.time.sums > 0) last = input_.sums.time.sums;
      }
      if (is_last) all.add(output_, 1);
      of_pieces.push_back(all.cost.time.total - before);

      const double flights = training ? static_cast<double>(most_in_flight(steps, c)) : 1.0;
      MemoryParts blocks;
      add_blocks(blocks, n, block_.cost.memory_parts.activations, block_.workspace, bytes(stream_),
                 options_, true);
      kept += flights * blocks.activations;
      workspace += flights * blocks.workspace;
      // What arrives from other stages: X here, and dY below.
      kept += is_first ? flights * input_.cost.memory_parts.activations
                       : (flights + 1) * bytes(stream_);
      if (is_last)
      {
        kept += output_.cost.memory_parts.activations;
        workspace += output_.workspace;
      }
      else if (training)
        kept += 2 * bytes(stream_);
    }
    memory = all.cost.memory_parts;
    memory.activations = kept;
    memory.workspace += workspace + ring_workspace_;
    if (accumulates()) memory.gradients += memory.parameters;
    return stage;
  }
  /// Returns the time of what a stage does once per step: sums of gradients, which are in flight
  /// during the backward pass of the last micro-batch, and the optimizer.
  [[nodiscard]] Time time_once(const Stage& stage) const
  {
    Time time = stage.all.sums.time;
    time.room = stage.all.cost.time.room;
    time = with_exchange(time, stage.last, of_stage_.hidden(parts_.ranks()), options_.sharded);
    if (options_.training) add_passes(time, optimizer_passes(options_) * stage.all.elements);
    return time;
  }
  /// Adds the messages between stages. Returns the seconds for which stages wait for them.
  double add_messages(Plan& plan, std::size_t pieces) const
  {
    const double ways = options_.training ? 2 : 1;
    const auto seconds = [&](double elements) {
      return stage_message_seconds(machine_, plan.ranks, parts_.ranks(), bytes(elements));
    };
    const double message = seconds(mean_stream_);
    double waits = ways * (p_ - 1) * message;
    if (pieces == 1 && options_.training) waits += (m_ - 1) * ways * message * (p_ - 1) / p_;
    double sent = ways * m_ * (p_ * static_cast<double>(pieces) - 1) / p_;
    plan.words += sent * mean_stream_;
    if (step_.model.tied && stages_ > 1 && options_.training)
    {
      const auto table = static_cast<double>(parts_.cut(parts_.logits()).w.block.size());
      waits += seconds(table);
      plan.words += 2 / p_ * table;
      sent += 2 / p_;
    }
    plan.messages += sent;
    return waits;
  }
  /// Adds up, over the pieces of a stage, the seconds of the slowest stage's piece.
  [[nodiscard]] static double sum_of_slowest_pieces(const std::vector<Stage>& stages)
  {
    double sum = 0;
    for (std::size_t c = 0; c < stages.front().pieces.size(); ++c)
    {
      double slowest = 0;
      for (const Stage& s : stages) slowest = std::max(slowest, s.pieces[c]);
      sum += slowest;
    }
    return sum;
  }

  /// Whether the gradients of micro-batches are added up.
  [[nodiscard]] bool accumulates() const { return options_.training && batches_.count > 1; }
  [[nodiscard]] double bytes(double elements) const
  {
    return static_cast<double>(options_.scalar_bytes) * elements;
  }
  [[nodiscard]] Plan on_stage() const
  {
    return empty_plan<S>(extents_, parts_.ranks(), of_stage_, options_);
  }
  void add_passes(Time& time, double elements) const
  {
    time +=
        pass_time(elements, 0, {parts_.ranks(), parts_.ranks()}, of_stage_, options_.scalar_bytes);
  }

  const Plan& empty_;
  const typename S::Axes::Array& extents_;
  const TransformerStep& step_;
  const Machine& machine_;
  const PlanOptions& options_;
  std::size_t stages_;
  Machine of_stage_;
  MicroBatches batches_;
  double p_;           // stages
  double m_;           // micro-batches
  Parts parts_;        // of the larger micro-batches
  double stream_ = 0;  // elements of a rank's activations between stages
  double mean_stream_ = 0;
  double ring_workspace_ = 0;
  StagePart block_, input_, output_;
  StepCost again_;  // a second forward pass through a block
};

/// Whether the stages of P come before all other axes.
template <class P>
concept StagesFirst = PipelineScheme<P> && std::same_as<P, Pipeline<typename P::StageScheme>>;

}  // namespace detail

/// Plans a step of a transformer on a pipeline with these extents, in a world of `ranks`. The
/// reason is empty. Numbers of micro-batches and pieces that `options` leave out are the fastest
/// that fit.
/// @throws what plan_on() throws for schemes; ArgumentError for more pieces than blocks, or for
/// several pieces and a number of micro-batches that is not a multiple of the number of stages
template <detail::StagesFirst P>
[[nodiscard]] Plan plan_on(const typename P::Axes::Array& extents, const TransformerStep& step,
                           int ranks, const Machine& machine = {}, const PlanOptions& options = {})
{
  using S = typename P::StageScheme;
  Plan empty = detail::empty_plan<P>(extents, ranks, machine, options);
  empty.stages = extents[0];
  const auto stages = static_cast<std::size_t>(empty.stages);
  const auto choices = detail::pipeline_choices(step, stages, options);
  require<ArgumentError>(
      !choices.empty(), "got ", empty.stages, " stages for ", step.model.layers, " blocks and ",
      step.batch.sequences,
      " sequences, but no number of pieces and micro-batches fits them; use fewer stages, at most "
      "as many micro-batches as sequences, and with several pieces a number of micro-batches that "
      "is a multiple of the stages'");
  const auto of_stage = P::of_scheme(extents);
  std::optional<detail::PipelinePlanner<S>> planner;
  std::optional<Plan> best;
  for (const auto& [micro_batches, pieces] : choices)
  {
    if (!planner || planner->micro_batches() != micro_batches)
      planner.emplace(empty, of_stage, step, machine, options, micro_batches);
    const Plan plan = planner->plan(pieces);
    if (!best || detail::better(plan, *best)) best = plan;
  }
  return *best;
}

}  // namespace cubist::CUBIST_ABI
