// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Plans a training step of a transformer: its layers as in plan.hpp, plus attention, norms,
// element-wise passes and the optimizer.
//
//   products     as in a network of layers; those that share X are merged into one
//   attention    local products of blocks of scores for each of a rank's heads and sequences, half
//                of S x S if the mask is causal: two forward, five backward; if ranks share
//                sequences, they exchange keys and values while they compute
//   passes       elements read and written by norms, softmax, activations, biases, residual sums,
//                the loss and AdamW / memory bandwidth
//   sums         of rows, which nothing overlaps; of gradients over replicas, in flight during the
//                rest of backward (time.hpp); a sharded optimizer sums them in half of that time,
//                and gathers the parameters at the end of the step in the other half
//   memory       parameters, their gradients and the two moments of AdamW; the output of every
//                layer and its gradient; workspaces of products
//   LoRA         the thin products beside every linear layer, and their messages; backward without
//                dW, and gradients and moments of A and B alone
//
// The slowest rank counts: one whose heads and sequences are not padding.

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "cubist/gradients/gradient_buckets.hpp"
#include "cubist/machine/machine.hpp"
#include "cubist/plan/model.hpp"
#include "cubist/plan/plan.hpp"
#include "cubist/plan/reason.hpp"
#include "cubist/plan/time.hpp"
#include "cubist/plan/transformer_parts.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

/// Returns a step's time including its sums of gradients. If the optimizer is sharded, half of
/// their time is for gathering the parameters.
[[nodiscard]] inline Time with_exchange(Time time, double last, double hidden, bool is_sharded)
{
  if (!is_sharded) return with_gradient_sums(time, last, hidden);
  const double gathering = time.sums / 2;
  time.sums -= gathering;
  time = with_gradient_sums(time, last / 2, hidden);
  time.total += gathering;
  return time;
}

/// Adds the activations and the workspaces of equal blocks, in bytes.
/// @param in_stages  whether the blocks are those of a stage
inline void add_blocks(MemoryParts& memory, std::size_t blocks, double activations,
                       double workspace, double output, const PlanOptions& options, bool in_stages)
{
  if (!options.training && !in_stages)  // keeps those of one block, and a copy of its input
  {
    memory.activations += activations + (blocks > 1 ? output : 0);
    memory.workspace += workspace;
    return;
  }
  // An evaluation in stages keeps those of two blocks.
  const std::size_t kept = options.training ? blocks : std::min<std::size_t>(blocks, 2);
  SegmentMemory segments{kept, options.training ? options.recompute : 0};
  for (std::size_t i = 0; i < kept; ++i) segments.add(i, 0, activations, workspace, output);
  segments.add_to(memory);
}

/// Adds the parts of a transformer to a plan.
template <SchemeType S>
class TransformerPlanner : StepPlanner
{
 public:
  /// @param sums_gradients  whether gradients are summed over replicas; if not, they are added up
  /// on each rank, like those of a micro-batch that is not the last
  TransformerPlanner(const TransformerParts<S>& parts, Plan& plan, const Machine& machine,
                     const PlanOptions& options, bool sums_gradients = true)
      : StepPlanner{plan, machine, options},
        parts_{parts},
        sums_gradients_{sums_gradients}
  {
  }

  /// The number of elements of added parameters whose optimizer's state a rank has.
  [[nodiscard]] double parameters() const { return parameters_; }
  /// The number of bytes in the workspaces of added products.
  [[nodiscard]] double products_workspace() const { return products_workspace_; }

  /// Adds a block: norm, attention, sum, norm, feed-forward, sum.
  void add_block()
  {
    const auto products = parts_.products();
    add_attention();
    for (const auto& p : products) add_product(p);
    for (int i = 0; i < 2; ++i) add_norm();

    const double stream = size(parts_.stream());
    const double qkv = size(parts_.cut(products[0]).y);
    const double attended = size(parts_.cut(products[1]).x);
    const double up = size(parts_.cut(products[2]).y);
    const double hidden = size(parts_.cut(products[3]).x);
    add_passes(6 * stream, 6 * stream);  // two residual sums
    if (!parts_.model().learned_positions) add_passes(2 * qkv, 2 * qkv);
    if (parts_.model().head_norms) add_head_norms(qkv);
    add_passes(up + hidden, 2 * up + hidden);  // the activation
    // The outputs of both norms, attention's projection, down, and two sums.
    add_activations(6 * stream + qkv + attended + up + hidden);
  }

  /// Adds what comes before the first block: the embedding and the position vectors.
  /// @param has_table  whether its table differs from that of the logits
  void add_input(bool has_table)
  {
    const double stream = size(parts_.stream());
    if (has_table) add_table(parts_.cut(parts_.logits()).w);
    // The all_reduce of a tied table is that of the logits' weight, unless their product is direct.
    if (trains_weights() && sums_gradients_ && (has_table || is_direct()))
      add_gradient_sum(parts_.table_gradient(), 1);
    if (parts_.model().learned_positions)
      add_parameters({parts_.model().positions, parts_.stream().block.cols},
                     parts_.stream().cols.parts());
    add_passes(2 * stream, 2 * stream);
    add_activations(stream);
    if (options_.training) add_workspace(static_cast<double>(parts_.embedding_workspace()));
  }
  /// Adds what comes after the last block: the last norm, the logits and the loss.
  void add_output()
  {
    const auto logits = parts_.logits();
    const double y = size(parts_.cut(logits).y);
    add_product(logits);
    add_norm();
    for (int i = 0; i < 2; ++i) add_sum(parts_.loss_statistics(), 1);
    add_sum(parts_.loss_mean(), 1);
    add_passes(4 * y, 0);
    add_activations(size(parts_.stream()) + y);
  }
  /// Adds the buffers for a ring's messages, which all layers share.
  void add_ring_workspace()
  {
    if (parts_.sequence_cut().is_cut())
      add_workspace((options_.training ? 5.0 : 2.0) * double(ring_transfer().count));
  }

  /// Adds what remains of the sums of gradients at the end of backward, and the exchange of a
  /// sharded optimizer.
  /// @param last  the seconds of the sums that begin when backward ends
  void add_gradient_sums(double last)
  {
    plan_.time = with_exchange(plan_.time, last, machine_.hidden(plan_.ranks), options_.sharded);
  }
  /// Adds the optimizer for all parameters of the plan.
  void add_optimizer() { add_passes(0, optimizer_passes(options_) * parameters_); }
  /// Multiplies the parts added so far by the number of blocks.
  void repeat(std::size_t blocks)
  {
    const auto n = static_cast<double>(blocks);
    static_cast<StepCost&>(plan_) = n * plan_;
    auto& memory = plan_.memory_parts;
    const double activations = std::exchange(memory.activations, 0);
    memory.workspace -= products_workspace_;
    memory *= n;
    add_blocks(memory, blocks, activations, products_workspace_, bytes(size(parts_.stream())),
               options_, false);
    parameters_ *= n;
  }

 private:
  [[nodiscard]] static double size(const CutMatrix& m)
  {
    return static_cast<double>(m.block.size());
  }

  /// Returns the work of backward without the sum of W's gradient over ranks.
  [[nodiscard]] static Work without_gradient_sums(Work work)
  {
    const auto transfers = std::exchange(work.transfers, {});
    for (const Transfer& t : transfers)
      if (t.matrix != LayerMatrix::w || t.collective != CallKind::all_reduce) work.transfers.add(t);
    return work;
  }

  /// Adds a linear layer.
  void add_product(const TransformerProduct& p)
  {
    const auto pass = !options_.training ? LayerPass::forward
                      : trains_weights() ? LayerPass::whole
                                         : LayerPass::without_dw;
    Cost c = parts_.cost(p, options_.gathered);
    if (!sums_gradients_) c.backward = without_gradient_sums(c.backward);
    const auto direct = [&]<class Of>() {
      return add_direct<Of>(parts_.extents(), p.size, pass, p.quanta, p.w_op);
    };
    const std::size_t workspace = plan_.method != Method::direct ? add_collectives(c, pass)
                                  : p.is_next ? direct.template operator()<typename S::Next>()
                                              : direct.template operator()<S>();
    const auto cut = parts_.cut(p);
    plan_.weight_copies = plan_.ranks / static_cast<int>(cut.w.rows.parts() * cut.w.cols.parts());
    p.w_op == Op::none ? add_weights(p) : add_table(cut.w);
    add_workspace(static_cast<double>(workspace));
    products_workspace_ += bytes(static_cast<double>(workspace));
    // W and dW are interleaved copies. A model for inference keeps only the interleaved W if a rank
    // has one piece of it, or stores it in fewer bits.
    if (p.is_merged() && !has_stored_weights() &&
        (options_.training || cut.w.cols.parts() != parts_.head_pieces()))
    {
      const double elements = (trains_weights() ? 2 : 1) * size(cut.w);
      add_workspace(elements);
      products_workspace_ += bytes(elements);
      add_passes(2 * size(cut.w), trains_weights() ? 2 * size(cut.w) : 0);
    }
    if (options_.lora > 0 && p.w_op == Op::none) add_lora(p);
    if (p.has_bias)
    {
      add_parameters({1, cut.y.block.cols}, cut.y.cols.parts());
      add_passes(2 * size(cut.y), size(cut.y));
      if (trains_weights() && sums_gradients_) add_gradient_sum(parts_.bias_sum(p), 1);
    }
    plan_.needed += needed_flops({p.size.m, p.n, p.size.k}, pass);
  }

  /// Adds LoRA's matrices beside a product.
  void add_lora(const TransformerProduct& p)
  {
    const auto add_work = [&](const Work& work, bool is_backward) {
      Time time = time_of(work, plan_.of_world(), machine_, options_.scalar_bytes);
      if (!is_backward) time.room = 0;
      plan_ += {time, work.words(), work.messages(), work.flops(), work.flops() * plan_.ranks};
    };
    const auto add_sum_of = [&](const Work& sum) {
      if (!options_.training || !sums_gradients_) return;
      for (const Transfer& t : sum.transfers) add_gradient_sum({t, t.words_of_all(plan_.ranks)}, 1);
    };
    const auto of_ranks = [&](std::size_t copies) {
      return static_cast<std::size_t>(plan_.ranks) / copies;
    };
    for_lora(
        parts_, p, options_.lora,
        [&](const LoraCost& c) {
          add_work(c.forward, false);
          if (options_.training) add_work(c.backward, true);
          add_sum_of(c.sum_a);
          add_trained(c.a, of_ranks(c.a_copies), true);
          add_activations(double(c.thin));
        },
        [&](const LoraCost& c) {
          add_sum_of(c.sum_b);
          add_trained(c.b, of_ranks(c.b_copies), true);
        });
  }

  /// Adds the products of attention, and the messages of ranks that share sequences.
  void add_attention()
  {
    const auto& model = parts_.model();
    const auto [sequences, length] = parts_.batch();
    const std::size_t dh = model.head_size;
    const auto share = parts_.attention();
    const std::size_t half = ceil_div(length, 2);
    const std::size_t mine = share.sequences * share.heads;
    const auto& cut = parts_.sequence_cut();
    const std::size_t queries = cut.is_cut() ? cut.chunks * cut.chunk : length;
    const std::size_t m = std::min<std::size_t>(queries, 64);  // as in LocalAttention
    const std::size_t n = std::min<std::size_t>(cut.is_cut() ? cut.chunk : half, 512);
    const std::size_t blocks = mine * ceil_div(queries, m) * ceil_div(half, n);
    const LocalGemm to_scores{.m = m, .n = n, .k = dh, .times = blocks};
    const LocalGemm from_scores{.m = m, .n = dh, .k = n, .times = blocks};
    const LocalGemm transposed{.m = n, .n = dh, .k = m, .times = blocks};
    const auto time = [&](const LocalGemm& gemm) {
      return seconds(gemm, plan_.of_world(), machine_, options_.scalar_bytes);
    };
    Time added;
    added.products = time(to_scores) + time(from_scores);
    if (options_.training)  // scores again, dP, dV, dQ, dK
      added.room = 2 * time(to_scores) + time(from_scores) + 2 * time(transposed);
    added.products += added.room;
    added.total = added.products;
    // Forward: maxima, exponentials, sums, and O is divided. Backward: exponentials again, slopes,
    // and O and dO are read.
    const double scores = double(mine) * double(queries) * double(half);
    const double outputs = double(mine) * double(queries) * double(dh);
    add_passes(4 * scores + 2 * outputs, 5 * scores + 2 * outputs);
    add_ring(added);
    plan_.time += added;
    const double tokens = double(sequences) * double(length);
    const double forward = 4 * tokens * double(length) * double(model.query_width()) / 2;
    const double needed = (options_.training ? 3.5 : 1) * forward;
    plan_.needed += needed;
    plan_.flops += needed / plan_.ranks;
    // The logarithm of the sum of exponentials for each query and head.
    add_activations(double(mine) * double(queries) * (cut.is_cut() ? 2 : 1));
  }

  /// Adds the messages with keys and values of other ranks and, in backward, with sums of their
  /// gradients, which travel as long as K and V.
  void add_ring(Time& time)
  {
    if (!parts_.sequence_cut().is_cut()) return;
    const Transfer t = ring_transfer();
    const double times = (options_.training ? 3 : 1) * ring_rounds();
    const double wire = times * seconds(t, plan_.ranks, machine_, options_.scalar_bytes);
    const bool within = is_within(t);
    const double hidden = within ? 0 : machine_.hidden(plan_.ranks);
    (within ? time.inside : time.across) += wire;
    time.total += wire - hidden * std::min(wire, time.products);
    std::uint64_t words = parts_.ring_words(false);
    if (options_.training) words += parts_.ring_words(true);
    plan_.words += static_cast<double>(words) / plan_.ranks;
    plan_.messages += times * t.messages();
  }

  /// The transfer of K and V in a round of forward, each from every rank to all that share its
  /// sequences.
  [[nodiscard]] Transfer ring_transfer() const
  {
    const auto& cut = parts_.sequence_cut();
    const auto rows = parts_.cut(parts_.products()[1]).x.rows;
    const std::size_t size = parts_.model().head_size;
    return {CallKind::all_gather, LayerMatrix::y, static_cast<int>(cut.parts),
            rows.innermost().stride,
            2 * cut.rows_of_part() * ring_heads(cut, key_value_heads(), size) * size};
  }
  /// The number of rounds in which a rank's heads travel around the ring.
  [[nodiscard]] double ring_rounds() const
  {
    const std::size_t heads = key_value_heads();
    const std::size_t together = ring_heads(parts_.sequence_cut(), heads, parts_.model().head_size);
    return heads == 0 ? 0 : static_cast<double>(heads / together);
  }
  [[nodiscard]] std::size_t key_value_heads() const
  {
    return parts_.attention().heads / parts_.model().group();
  }

  void add_norm()
  {
    const auto x = parts_.stream();
    add_passes(3 * size(x), 5 * size(x));
    const int vectors = static_cast<int>(parts_.model().norm_vectors());
    add_sum(parts_.norm_sum(), vectors);
    if (options_.training) add_sum(parts_.norm_statistics(), 1);
    if (trains_weights() && sums_gradients_) add_gradient_sum(parts_.norm_gradients(), 1);
    for (int i = 0; i < vectors; ++i) add_parameters({1, x.block.cols}, x.cols.parts());
  }

  /// @param qkv  the number of elements of a rank's queries, keys and values
  void add_head_norms(double qkv)
  {
    const auto& model = parts_.model();
    const auto heads = static_cast<double>(model.heads + model.key_value_heads);
    const double normed = qkv * heads / (heads + static_cast<double>(model.key_value_heads));
    add_passes(5 * normed, 6 * normed);
    if (trains_weights() && sums_gradients_) add_gradient_sum(parts_.head_norm_gradient(), 2);
    for (int i = 0; i < 2; ++i) add_parameters({1, model.head_size}, 1);
    // Q and K before the norms, and a matrix like them in backward.
    add_activations(normed);
  }

  /// Adds sums for which the next layer waits.
  void add_sum(const LineSum& sum, int times)
  {
    const auto& t = sum.transfer;
    if (t.ranks == 1) return;
    Time added;
    const bool within = is_within(t);
    (within ? added.inside : added.across) =
        seconds(t, plan_.ranks, machine_, options_.scalar_bytes);
    added.total = added.inside + added.across;
    plan_.time += times * added;
    count(sum, times);
  }
  /// Adds sums of small gradients, which travel together while backward continues.
  void add_gradient_sum(const LineSum& sum, int times)
  {
    const auto& t = sum.transfer;
    if (is_direct() || (is_within(t) && !machine_.inside().overlaps)) return add_sum(sum, times);
    if (t.ranks == 1) return;
    const double together = std::min(1.0, bytes(double(t.count)) / double(BucketOptions{}.bytes));
    Time added;
    added.sums = seconds(t, plan_.ranks, machine_, options_.scalar_bytes) -
                 (1 - together) * latency_seconds(t, plan_.ranks, machine_, options_.scalar_bytes);
    (is_within(t) ? added.inside : added.across) = added.sums;
    plan_.time += times * added;
    count(sum, times);
  }
  [[nodiscard]] bool is_within(const Transfer& t) const
  {
    return t.within(machine_.ranks_per_node(), plan_.ranks);
  }
  void count(const LineSum& sum, int times)
  {
    plan_.words += times * static_cast<double>(sum.words) / plan_.ranks;
    plan_.messages += times * sum.transfer.messages();
  }
  /// Adds elements that are read and written in forward and, in training, in backward.
  void add_passes(double forward, double backward)
  {
    StepPlanner::add_passes(forward, options_.training ? backward : 0);
  }
  /// Adds the weights of a product; a merged one has several. Gradients of direct products and of
  /// tied tables are in no bucket.
  void add_weights(const TransformerProduct& p)
  {
    for (const auto& output : p.outputs)
    {
      auto one = p;
      one.size.n = output.n, one.quanta.n = output.quantum;
      const auto w = parts_.cut(one).w;
      if (!has_stored_weights())
        add_parameters(w.block, w.rows.parts() * w.cols.parts(), !is_direct());
      else
      {
        plan_.memory_parts.parameters +=
            stored_bytes(options_.weights, w.block, options_.scalar_bytes);
        parameters_ += size(w);
      }
    }
  }
  [[nodiscard]] bool has_stored_weights() const
  {
    return options_.weights != StoredWeights::scalar && !options_.training;
  }
  /// Adds a matrix that is stored transposed.
  void add_table(const CutMatrix& w)
  {
    add_parameters({w.block.cols, w.block.rows}, w.rows.parts() * w.cols.parts(),
                   !parts_.model().tied && !is_direct());
  }
  [[nodiscard]] bool is_direct() const { return plan_.method == Method::direct; }
  [[nodiscard]] bool trains_weights() const { return options_.training && options_.lora == 0; }
  /// @param parts the number of ranks that hold different blocks
  void add_parameters(Shape block, std::size_t parts, bool is_packed = true)
  {
    if (options_.lora == 0) return add_trained(block, parts, is_packed);
    plan_.memory_parts.parameters += bytes(static_cast<double>(block.size()));  // frozen
  }
  void add_trained(Shape block, std::size_t parts, bool is_packed)
  {
    const auto copies = static_cast<std::size_t>(plan_.ranks) / parts;
    parameters_ += add_parameter(block, copies, is_packed);
  }
  void add_activations(double elements)
  {
    plan_.memory_parts.activations += bytes((options_.training ? 2 : 1) * elements);
  }
  void add_workspace(double elements) { plan_.memory_parts.workspace += bytes(elements); }

  const TransformerParts<S>& parts_;
  bool sums_gradients_;
  double parameters_ = 0;          // elements whose optimizer's state the rank has
  double products_workspace_ = 0;  // bytes
};

/// Returns the cost of blocks that run forward again in backward.
/// @param plan  the plan whose mesh and method count
template <SchemeType S>
[[nodiscard]] StepCost recomputation_cost(const Plan& plan, const TransformerParts<S>& parts,
                                          std::size_t blocks, const Machine& machine,
                                          PlanOptions options)
{
  options.training = false;
  Plan again;
  again.ranks = plan.ranks, again.idle = plan.idle, again.method = plan.method;
  TransformerPlanner<S> planner{parts, again, machine, options};
  planner.add_block();
  planner.repeat(blocks);
  again.time.room = std::max(0.0, again.time.total - again.time.across);
  return again;
}

/// The number of blocks that run forward again: all but those of the last segment.
[[nodiscard]] inline std::size_t recomputed_blocks(std::size_t blocks, const PlanOptions& options)
{
  if (!options.training || options.recompute == 0) return 0;
  return (blocks - 1) / options.recompute * options.recompute;
}

/// Returns the trained matrices of blocks: their weights, with merged ones listed one by one, or A
/// and B.
/// @param lora  the rank of A and B, or 0
template <SchemeType S>
[[nodiscard]] MuonMatrices muon_matrices(const TransformerParts<S>& parts, std::size_t blocks,
                                         std::size_t lora)
{
  MuonMatrices all;
  const auto& extents = parts.extents();
  const std::size_t quantum = S::quantum(extents);
  const auto or_of_mesh = [&](std::size_t q) { return q == 0 ? quantum : q; };
  for (const auto& p : parts.products())
    for (const auto& output : p.outputs)
    {
      const bool has_a = &output == p.outputs.begin() || !shares_a(parts);
      const auto add = [&]<class Of>(std::type_identity<Of>) {
        using Axes = typename Of::Axes;
        const std::size_t in = or_of_mesh(p.quanta.k), out = or_of_mesh(output.quantum);
        if (lora == 0)
          return all.add<typename Of::Weight, Axes>(extents, {in, out}, {p.size.k, output.n},
                                                    blocks);
        if (has_a)
          all.add<Transposed<RowVector<typename Of::Input>>, Axes>(extents, {in, quantum},
                                                                   {p.size.k, lora}, blocks);
        all.add<RowVector<typename Of::Output>, Axes>(extents, {quantum, out}, {lora, output.n},
                                                      blocks);
      };
      p.is_next ? add(std::type_identity<typename S::Next>{}) : add(std::type_identity<S>{});
    }
  return all;
}

}  // namespace detail

/// Plans a step of a transformer on scheme `S` with these extents, in a world of `ranks`. The
/// reason is empty, and `words` leaves out the rows that the embedding sends.
/// @throws what plan_on() for layers throws
template <SchemeType S>
[[nodiscard]] Plan plan_on(const typename S::Axes::Array& extents, const TransformerStep& step,
                           int ranks, const Machine& machine = {}, const PlanOptions& options = {})
{
  Plan plan = detail::empty_plan<S>(extents, ranks, machine, options);
  const TransformerParts<S> parts{extents, step.batch, step.model, options.context_parallel};
  detail::TransformerPlanner<S> planner{parts, plan, machine, options};
  planner.add_block();
  double last = plan.time.sums;
  const std::size_t blocks = parts.model().layers;
  planner.repeat(blocks);
  if (const std::size_t again = detail::recomputed_blocks(blocks, options); again > 0)
    plan += detail::recomputation_cost(plan, parts, again, machine, options);
  double before = plan.time.sums;
  planner.add_input(!step.model.tied);
  if (plan.time.sums > before) last = plan.time.sums - before;
  before = plan.time.sums;
  planner.add_output();
  // The gradient of a tied table is complete only at the end, after the embedding's part.
  if (step.model.tied) last = plan.time.sums - before;
  planner.add_ring_workspace();
  if (options.training) planner.add_gradient_sums(last), planner.add_optimizer();
  plan.note = detail::attention_note(parts);
  if (options.training && options.muon)
    detail::add_muon(plan, detail::muon_matrices(parts, blocks, options.lora), machine, options);
  detail::complete(plan, machine);
  return plan;
}

}  // namespace cubist::CUBIST_ABI
