// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The plan of a training step of a transformer in the stages of a pipeline (scheme/pipeline.hpp):
// that of transformer_plan.hpp for one micro-batch on the mesh of a stage, for each stage.
//
//   stages        p meshes of scheme S, side by side; blocks are cut over p v pieces as networks
//                 cut them (nn/networks/pipeline_options.hpp)
//   t_s           seconds of stage s for a micro-batch, forward and backward, in which gradients
//                 are added up on each rank; L: seconds of one message to the next stage
//   time          m max t_s + (sum of t_s - max t_s) / v: for equal stages, the bubble is
//                 (p - 1) / (v m + p - 1) of it. If pieces are unequal, stages also wait for the
//                 slowest one of each piece: (3 p / 4 + m / 4) (sum of the pieces' slowest times -
//                 max t_s). The first p micro-batches go through one piece after the other; of the
//                 later ones, forwards in one piece overlap with backwards in another, and a
//                 quarter of the wait is left. For models of 24 to 80 blocks on 2 to 16 stages this
//                 is within 14 % of the schedule's time, and 3 % on average. Then the messages that
//                 stages wait for: 2 (p - 1) L for the first micro-batch and, with one piece, 2 L
//                 (p - 1) / p for each other one, since p micro-batches are in flight in p t + 2 (p
//                 - 1) L. Once a step: the sums of gradients over replicas, and the optimizer.
//   memory        of the stage that needs most: its parameters, sums of their gradients, and what
//                 its micro-batches in flight keep: at most p - s of them on stage s
//   words         those of the blocks, (p v - 1) / p of a rank's block of activations for each
//                 micro-batch and direction, and a tied table's gradient twice
//
// Source: Narayanan et al., arXiv 2104.04473, section 2.2; L: a round trip of a micro-batch.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

#include "cubist/core/block.hpp"
#include "cubist/core/error.hpp"
#include "cubist/machine/machine.hpp"
#include "cubist/nn/networks/pipeline_options.hpp"
#include "cubist/nn/networks/pipeline_schedule.hpp"
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

/// A machine as so many of its `ranks` see it, which have consecutive numbers: with their part of a
/// node, if they are not whole nodes.
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

/// Seconds of a message of so many bytes from every rank of a stage to the next stage.
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

/// The micro-batches of a step, and the pieces of each stage.
struct PipelineChoice
{
  std::size_t micro_batches = 1;
  std::size_t pieces = 1;
};

/// What may be chosen for so many stages; empty if there are too few blocks.
[[nodiscard]] inline std::vector<PipelineChoice>
pipeline_choices(const TransformerStep& step, std::size_t stages, const PlanOptions& options)
{
  const std::size_t sequences = step.batch.sequences;
  // Some divisors of a batch of more than 4096^2 sequences are not tried.
  constexpr std::size_t most = 4096;
  std::vector<std::size_t> numbers;
  const std::size_t fixed = options.micro_batches;
  if (fixed > 0)
  {
    // As in networks, a training step has a sequence for each.
    if (fixed <= sequences || !options.training) numbers.push_back(std::min(fixed, sequences));
  }
  else
    for (std::size_t m = 1; m <= most && m * m <= sequences; ++m)
      if (sequences % m == 0)
      {
        numbers.push_back(m);
        if (m * m != sequences) numbers.push_back(sequences / m);
      }
  std::vector<PipelineChoice> choices;
  for (const std::size_t v : {1U, 2U, 3U, 4U})
  {
    if (options.pieces > 0 && v != 1) break;
    const std::size_t pieces = options.pieces == 0 ? v : stages == 1 ? 1 : options.pieces;
    if (pieces * stages > step.model.layers || (stages == 1 && pieces > 1)) continue;
    for (const std::size_t m : numbers)
      if (pieces == 1 || m % stages == 0) choices.push_back({m, pieces});
  }
  return choices;
}

/// A part of a stage for one micro-batch: a block, what is before the first one, or behind the
/// last.
struct StagePart
{
  Plan cost = {};        // of a micro-batch whose gradients are added up on each rank
  Plan sums = {};        // what sums over replicas add, once a step: time, words and messages
  double elements = 0;   // of parameters, whose optimizer's state a rank has
  double workspace = 0;  // bytes of the workspace that each micro-batch in flight has
  double needed = 0;     // operations of all ranks

  /// Adds a part once a stage, and its memory without that of micro-batches in flight.
  void add(const StagePart& other, double n)
  {
    const auto add_to = [n](Plan& to, const Plan& from) {
      to.time += n * from.time;
      to.words += n * from.words;
      to.messages += n * from.messages;
      to.flops += n * from.flops;
    };
    add_to(cost, other.cost);
    add_to(sums, other.sums);
    auto& memory = cost.memory_parts;
    const auto& added = other.cost.memory_parts;
    memory.parameters += n * added.parameters;
    memory.gradients += n * added.gradients;
    memory.optimizer += n * added.optimizer;
    memory.workspace += n * (added.workspace - other.workspace);
    elements += n * other.elements;
    needed += n * other.needed;
  }
};

/// Replaces what a micro-batch costs by a mean with that of a smaller one.
/// @param share  the smaller ones' part of the micro-batches
inline void average(StagePart& part, const StagePart& smaller, double share)
{
  const auto mean = [share](double& x, double y) { x += share * (y - x); };
  part.cost.time += -share * Time{part.cost.time};
  part.cost.time += share * smaller.cost.time;
  mean(part.cost.words, smaller.cost.words);
  mean(part.cost.messages, smaller.cost.messages);
  mean(part.cost.flops, smaller.cost.flops);
  mean(part.needed, smaller.needed);
}

/// The plans of pipelines on one mesh.
template <SchemeType S>
class PipelinePlanner
{
 public:
  /// @param machine, ranks  the whole ones  @param extents of a stage
  PipelinePlanner(const Plan& empty, const typename S::Axes::Array& extents,
                  const TransformerStep& step, const Machine& machine, const PlanOptions& options)
      : empty_{empty}, extents_{extents}, step_{step}, machine_{machine}, options_{options},
        stages_{static_cast<std::size_t>(empty.stages)}, of_stage_{machine_of_stage(
                                                             machine, empty.ranks,
                                                             S::Axes::ranks(extents))}
  {
  }

  /// The plan for so many micro-batches, and each number of pieces.
  /// @param use  is called with each plan
  template <class Use>
  void plan(std::size_t micro_batches, const std::vector<std::size_t>& pieces, Use use)
  {
    const MicroBatches batches{step_.batch.sequences, micro_batches};
    m_ = static_cast<double>(batches.count);
    accumulates_ = options_.training && batches.count > 1;
    const TransformerParts<S> parts = parts_of(batches.rows_of(0));
    make_parts(parts);
    table_ = static_cast<double>(parts.cut(parts.logits()).w.block.size());
    mean_stream_ = stream_;
    if (const std::size_t larger = batches.rows % batches.count; larger > 0)
    {
      // Memory is that of the larger micro-batches.
      PipelinePlanner smaller = *this;
      smaller.make_parts(parts_of(batches.rows_of(larger)));
      const double share = 1 - static_cast<double>(larger) / m_;
      average(block_, smaller.block_, share), average(input_, smaller.input_, share);
      average(output_, smaller.output_, share), average(again_, smaller.again_, share);
      mean_stream_ += share * (smaller.stream_ - stream_);
    }
    for (const std::size_t v : pieces)
    {
      Plan plan = combine(parts.model(), batches.count, v);
      plan.note = attention_note(parts);
      use(std::as_const(plan));
    }
  }

 private:
  [[nodiscard]] TransformerParts<S> parts_of(std::size_t sequences) const
  {
    return {extents_, {sequences, step_.batch.length}, step_.model, options_.context_parallel};
  }
  /// Makes the parts of a stage for a micro-batch.
  void make_parts(const TransformerParts<S>& parts)
  {
    stream_ = static_cast<double>(parts.stream().block.size());
    block_ = make(parts, [](auto& planner) { return planner.add_block(); });
    input_ = make(parts, [&](auto& planner) {
      planner.add_input(!step_.model.tied || stages_ > 1);
      return 0.0;
    });
    output_ = make(parts, [](auto& planner) { return planner.add_output(); });
    StagePart ring = make(parts, [](auto& planner) {
      planner.add_ring_workspace();
      return 0.0;
    });
    ring_workspace_ = ring.cost.memory_parts.workspace;
    again_ = {};
    if (options_.training && options_.recompute > 0)
    {
      PlanOptions forward = options_;
      forward.training = false;
      again_.cost = on_stage();
      TransformerPlanner<S> planner{parts, again_.cost, of_stage_, forward};
      again_.needed = planner.add_block();
      again_.cost.time.room = std::max(0.0, again_.cost.time.total - again_.cost.time.across);
      again_.cost.memory_parts = {};
    }
  }

  /// A stage of the mesh.
  struct Stage
  {
    StagePart all = {};  // of a micro-batch
    MemoryParts memory = {};
    std::vector<double> pieces = {};  // their seconds
  };

  [[nodiscard]] Plan on_stage() const
  {
    PlanOptions options = options_;
    // As the mesh of a stage decides it.
    return empty_plan<S>(extents_, S::Axes::ranks(extents_), of_stage_, options);
  }
  [[nodiscard]] double bytes(double elements) const
  {
    return static_cast<double>(options_.scalar_bytes) * elements;
  }

  template <class Add>
  [[nodiscard]] StagePart make(const TransformerParts<S>& parts, Add add) const
  {
    StagePart part;
    part.cost = on_stage();
    TransformerPlanner<S> planner{parts, part.cost, of_stage_, options_, false};
    part.needed = add(planner);
    part.elements = planner.parameters();
    part.workspace = planner.products_workspace();
    if (!options_.training) return part;
    part.sums = on_stage();
    TransformerPlanner<S> whole{parts, part.sums, of_stage_, options_};
    add(whole);
    const double room = part.sums.time.room;
    part.sums.time += -1.0 * part.cost.time;
    part.cost.time.room = room;
    part.sums.words -= part.cost.words;
    part.sums.messages -= part.cost.messages;
    part.sums.flops = 0;
    if (accumulates_)  // reads a gradient and the sum, and writes that
      add_passes(part.cost.time, 3 * part.cost.memory_parts.parameters / bytes(1));
    return part;
  }
  void add_passes(Time& time, double elements) const
  {
    const int ranks = S::Axes::ranks(extents_);
    const double seconds = pass_seconds(elements, {ranks, ranks}, of_stage_, options_.scalar_bytes);
    time.passes += seconds;
    time.total += seconds;
  }

  /// Makes the stages from pieces, which begin with these blocks.
  [[nodiscard]] std::vector<Stage> make_stages(const std::vector<std::size_t>& begins,
                                               std::size_t micro_batches, std::size_t pieces) const
  {
    std::vector<Stage> stages(stages_);
    const std::size_t last = stages_ * pieces - 1;
    for (std::size_t s = 0; s < stages_; ++s)
    {
      auto& [all, memory, of_pieces] = stages[s];
      // Four rounds of micro-batches have as many in flight as more.
      const auto steps =
          options_.training
              ? pipeline_schedule(s, stages_, std::min(micro_batches, 4 * stages_), pieces)
              : std::vector<PipelineStep>{};
      double kept = 0;       // bytes of activations
      double workspace = 0;  // of micro-batches in flight
      for (std::size_t c = 0; c < pieces; ++c)
      {
        const std::size_t k = c * stages_ + s;
        const std::size_t n = begins[k + 1] - begins[k];
        const double before = all.cost.time.total;
        all.add(block_, double(n));
        const std::size_t recompute = options_.training ? options_.recompute : 0;
        if (recompute > 0) all.add(again_, double((n - 1) / recompute * recompute));
        const double flights =
            options_.training ? static_cast<double>(most_in_flight(steps, c)) : 1.0;
        // An evaluation has the activations and the workspace of two blocks.
        const std::size_t blocks = options_.training ? n : std::min<std::size_t>(n, 2);
        SegmentMemory segments{blocks, recompute};
        for (std::size_t i = 0; i < blocks; ++i)
          segments.add(i, 0, block_.cost.memory_parts.activations, block_.workspace,
                       bytes(stream_));
        MemoryParts of_piece;
        segments.add_to(of_piece);
        kept += flights * of_piece.activations;
        workspace += flights * of_piece.workspace;
        if (k == 0)
        {
          all.add(input_, 1);
          kept += flights * input_.cost.memory_parts.activations;
        }
        else
          kept += (flights + 1) * bytes(stream_);  // X that arrive
        if (k < last)
          kept += options_.training ? 2 * bytes(stream_) : 0;  // dY that arrive
        else
        {
          all.add(output_, 1);
          kept += output_.cost.memory_parts.activations;
          workspace += output_.workspace;
        }
        of_pieces.push_back(all.cost.time.total - before);
      }
      memory = all.cost.memory_parts;
      memory.activations = kept;
      memory.workspace += workspace + ring_workspace_;
      if (accumulates_) memory.gradients += memory.parameters;
    }
    return stages;
  }

  [[nodiscard]] Plan combine(const TransformerConfig& model, std::size_t micro_batches,
                             std::size_t pieces) const
  {
    const auto begins = cut_in_pieces(block_costs(model), stages_, {.pieces = pieces});
    const auto stages = make_stages(begins, micro_batches, pieces);

    Plan plan = empty_;
    plan.micro_batches = micro_batches;
    plan.pieces = pieces;
    plan.weight_copies = block_.cost.weight_copies;
    plan.method = block_.cost.method;
    plan.moves_weights = block_.cost.moves_weights;
    plan.moves_activations = true;
    const double p = static_cast<double>(stages_);
    const int ranks = S::Axes::ranks(extents_);
    const auto seconds_of = [](const Stage& s) { return s.all.cost.time.total; };
    const Stage* slowest = stages.data();
    double all = 0;
    double needed = 0;
    double once = 0;
    for (const Stage& s : stages)
    {
      if (seconds_of(s) > seconds_of(*slowest)) slowest = &s;
      all += seconds_of(s);
      needed += m_ * s.all.needed;
      plan.words += (m_ * s.all.cost.words + s.all.sums.words) / p;
      plan.messages += (m_ * s.all.cost.messages + s.all.sums.messages) / p;
      plan.flops += m_ * s.all.cost.flops / p;
      if (s.memory.total() > plan.memory_parts.total()) plan.memory_parts = s.memory;
      // Sums of gradients are in flight during backward of the last micro-batch.
      Time end = s.all.sums.time;
      end.room = s.all.cost.time.room;
      end = with_exchange(end, block_.sums.time.sums, of_stage_.hidden(ranks), options_.sharded);
      if (options_.training) add_passes(end, (3 + 2 * options_.moments) * s.all.elements);
      if (end.total >= once) once = end.total, plan.time = end;
    }
    plan.time += m_ * slowest->all.cost.time;

    const double ways = options_.training ? 2 : 1;
    const double message = stage_message_seconds(machine_, plan.ranks, ranks, bytes(mean_stream_));
    double waits = ways * (p - 1) * message;
    if (pieces == 1 && options_.training) waits += (m_ - 1) * ways * message * (p - 1) / p;
    double sent = ways * m_ * (p * double(pieces) - 1) / p;
    plan.words += sent * mean_stream_;
    if (model.tied && stages_ > 1 && options_.training)
    {
      waits += stage_message_seconds(machine_, plan.ranks, ranks, bytes(table_));
      plan.words += 2 / p * table_;
      sent += 2 / p;
    }
    plan.messages += sent;
    double paces = 0;  // of the pieces
    for (std::size_t c = 0; c < pieces; ++c)
    {
      double slowest_piece = 0;
      for (const Stage& s : stages) slowest_piece = std::max(slowest_piece, s.pieces[c]);
      paces += slowest_piece;
    }
    plan.bubble = (all - seconds_of(*slowest)) / double(pieces) + waits +
                  (0.75 * p + 0.25 * m_) * (paces - seconds_of(*slowest));
    (machine_.on_a_node(plan.ranks) == plan.ranks ? plan.time.inside : plan.time.across) += waits;
    plan.time.total += plan.bubble;
    complete(plan, needed, machine_);
    return plan;
  }

  const Plan& empty_;
  const typename S::Axes::Array& extents_;
  const TransformerStep& step_;
  const Machine& machine_;
  const PlanOptions& options_;
  std::size_t stages_;
  Machine of_stage_;
  double m_ = 1;
  bool accumulates_ = false;
  double stream_ = 0;  // elements of a rank's activations between stages
  double mean_stream_ = 0;
  double table_ = 0;  // elements of a rank's block of the table
  double ring_workspace_ = 0;
  StagePart block_, input_, output_;
  StagePart again_;  // forward of a block once more
};

/// Whether P has its stages in front of all other axes.
template <class P>
concept StagesFirst = PipelineScheme<P> && std::same_as<P, Pipeline<typename P::StageScheme>>;

}  // namespace detail

/// The plan of a pipeline with these extents for a step of a transformer, in a world of `ranks`;
/// its reason is empty. Numbers of micro-batches and pieces that `options` leave out are the
/// fastest that fit.
/// @throws what the same for schemes throws; ArgumentError for more pieces than blocks, or for
/// several pieces and a number of micro-batches that is no multiple of the stages
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
      " sequences, which have no such pieces or micro-batches; use fewer stages, at most as many "
      "micro-batches as sequences, and with several pieces a number of micro-batches that is a "
      "multiple of the stages'");
  const auto of_stage = P::of_scheme(extents);
  detail::PipelinePlanner<S> planner{empty, of_stage, step, machine, options};
  Plan best;
  bool is_first = true;
  std::vector<std::size_t> pieces;
  for (const auto& choice : choices)
  {
    // All pieces for a number of micro-batches at once, when it comes for the first time.
    const auto same = [&](const auto& c) { return c.micro_batches == choice.micro_batches; };
    if (&*std::find_if(choices.begin(), choices.end(), same) != &choice) continue;
    pieces.clear();
    for (const auto& c : choices)
      if (same(c)) pieces.push_back(c.pieces);
    planner.plan(choice.micro_batches, pieces, [&](const Plan& plan) {
      if (is_first || detail::better(plan, best)) best = plan;
      is_first = false;
    });
  }
  return best;
}

}  // namespace cubist::CUBIST_ABI
