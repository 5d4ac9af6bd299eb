// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A plan: a scheme on a mesh for the layers of a network, and the predicted cost of a step. The
// planner sorts plans.
//
// Layer i is the product X_i (M, K_i) W_i (K_i, N_i) of the scheme, or of its Next if i is odd.
// Several layers are an MLP, with biases, and activations between the layers. The time of a plan
// includes the passes for them, but not the optimizer; its memory includes both. The members called
// `words` count elements that are sent.

#include <algorithm>
#include <cstddef>
#include <locale>
#include <sstream>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "cubist/core/block.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/stored_weights.hpp"
#include "cubist/machine/machine.hpp"
#include "cubist/plan/cost.hpp"
#include "cubist/plan/direct_cost.hpp"
#include "cubist/plan/meshes.hpp"
#include "cubist/plan/model.hpp"
#include "cubist/plan/muon_cost.hpp"
#include "cubist/plan/muon_plan.hpp"
#include "cubist/plan/time.hpp"

namespace cubist::CUBIST_ABI
{

/// The options of the planner: what to plan, and what it may use.
struct PlanOptions
{
  std::size_t scalar_bytes = sizeof(float);  ///< the size of an element in bytes
  bool training = true;                      ///< forward and backward, or only forward
  bool input_gradient = false;  ///< whether backward computes dX in the first layer, too
  Gathered gathered = Gathered::kept;
  std::string scheme = {};  ///< plans only this scheme; empty: all
  /// Whether to plan meshes with a data axis, too: `DataParallel` of the schemes.
  bool data_parallel = false;
  /// The method of the products. A backend whose ranks cannot read each other's memory, such as
  /// Nccl, runs collectives.
  Method method = Method::automatic;
  /// The number of moments that the optimizer keeps for each element of a parameter: 2 for Adam, 1
  /// for Sgd.
  int moments = 2;
  /// Whether Muon updates the matrices of layers; `moments` is then that of AdamW.
  bool muon = false;
  /// Where Muon orthogonalizes these matrices.
  MuonWay muon_way = MuonWay::automatic;
  /// For transformers: the rank of LoRA's matrices beside all linear layers, which are then all
  /// that is trained; 0: all weights are trained.
  std::size_t lora = 0;
  /// Whether the replicas of a parameter share its optimizer's state: `Sharded`.
  bool sharded = false;
  /// The number of layers or blocks in a segment whose activations are recomputed; 0 recomputes
  /// none.
  std::size_t recompute = 0;
  /// The number of ranks of a transformer that share a sequence, as in TransformerOptions; 0
  /// chooses it for each mesh.
  std::size_t context_parallel = 0;
  /// Whether to plan a transformer in the stages of a pipeline, too: `Pipeline<DataParallel<…>>` of
  /// the schemes, on meshes that leave no rank idle.
  bool pipeline = false;
  /// The number of micro-batches of a step in stages, as in PipelineOptions; 0 chooses the fastest
  /// for each mesh among the divisors of the sequences.
  std::size_t micro_batches = 0;
  std::size_t pieces = 0;  ///< pieces of blocks on each stage; 0 chooses the fastest, up to 4
  /// How a transformer that is not trained stores the weights of its linear layers, as its
  /// constructor takes it. They count in its memory; products take as long as with scalars.
  StoredWeights weights = StoredWeights::scalar;
  /// The number of plans to return, the fastest first; 0 returns all. A few take a third of the
  /// time of 10^6, and hardly any memory.
  std::size_t top = 0;
};

/// The cost of a step, or of a part of it, for a rank.
struct StepCost
{
  Time time = {};       ///< the predicted time
  double words = 0;     ///< elements that a rank sends, averaged over the ranks
  double messages = 0;  ///< messages that a rank sends, averaged over the ranks
  double flops = 0;     ///< operations, including padding, averaged over the ranks
  double needed = 0;    ///< operations of all ranks, without padding

  StepCost& operator+=(const StepCost& other)
  {
    time += other.time;
    words += other.words;
    messages += other.messages;
    flops += other.flops;
    needed += other.needed;
    return *this;
  }
  friend StepCost operator*(double n, const StepCost& c)
  {
    return {n * c.time, n * c.words, n * c.messages, n * c.flops, n * c.needed};
  }
};

struct Plan : StepCost
{
  std::string scheme;  ///< the name of the scheme
  std::vector<int> extents;
  int ranks = 1;
  int idle = 0;  ///< ranks that are not on the mesh
  Gathered gathered = Gathered::kept;
  Method method = Method::collectives;  // the method that will run: collectives or direct
  double padding = 0;                   // operations on padding, relative to all others
  double memory = 0;                    // the memory of a rank, in bytes
  MemoryParts memory_parts;             ///< memory of a rank by use, in bytes
  bool fits_memory = true;              ///< whether a rank's memory suffices
  int weight_copies = 1;                // ranks that hold the same block of W
  bool moves_weights = false;           // whether messages carry weights, not only gradients
  bool moves_activations = false;       ///< whether messages carry activations
  int stages = 1;                       ///< stages of a pipeline
  std::size_t micro_batches = 1;        ///< micro-batches of a step in stages
  std::size_t pieces = 1;               ///< pieces of blocks on each stage
  double bubble = 0;   ///< seconds of the step in which the slowest stage waits for others
  std::string note;    // text at the end of the reason; may be empty
  std::string reason;  ///< why this plan stands where it does in the list

  /// The predicted time of a step.
  [[nodiscard]] double seconds() const { return time.total; }
  /// The ranks of the mesh, and all ranks.
  [[nodiscard]] Ranks of_world() const { return {ranks, ranks + idle}; }
};

namespace detail
{

/// The part of a step that a layer computes.
enum class LayerPass
{
  forward,
  without_dx,  // forward, and backward without dX
  without_dw,  // forward, and backward without dW
  whole
};

[[nodiscard]] inline LayerPass pass_of(std::size_t layer, const PlanOptions& options)
{
  if (!options.training) return LayerPass::forward;
  return layer == 0 && !options.input_gradient ? LayerPass::without_dx : LayerPass::whole;
}

/// Returns the operations of a layer in a step, without padding.
[[nodiscard]] inline double needed_flops(ProductSize size, LayerPass pass)
{
  const double products = pass == LayerPass::forward ? 1 : pass == LayerPass::whole ? 3 : 2;
  return 2 * products * double(size.m) * double(size.n) * double(size.k);
}

/// Returns the cost of a pass's backward part, for a pass that has one.
/// @tparam C Cost or DirectCost
template <class C>
[[nodiscard]] const auto& backward_of(const C& cost, LayerPass pass)
{
  if (pass == LayerPass::without_dx) return cost.backward_weight;
  return pass == LayerPass::without_dw ? cost.backward_input : cost.backward;
}

/// The number of elements that an optimizer reads and writes for each element of a parameter: dW, W
/// and the moments. For 16-bit parameters, the moments and masters of W are in float.
[[nodiscard]] inline double optimizer_passes(const PlanOptions& options)
{
  const bool is_short = options.scalar_bytes < sizeof(float);
  const double state = 2.0 * (options.moments + 1);
  return is_short ? 2 + state * double(sizeof(float)) / double(options.scalar_bytes) : 1 + state;
}

/// Adds the parts of a step to a plan.
struct StepPlanner
{
  Plan& plan_;
  const Machine& machine_;
  const PlanOptions& options_;

  [[nodiscard]] double bytes(double elements) const
  {
    return static_cast<double>(options_.scalar_bytes) * elements;
  }

  /// Adds the cost of a product by collectives. Returns the workspace in elements.
  std::size_t add_collectives(const Cost& c, LayerPass pass)
  {
    const auto add = [&](const Work& work, bool is_backward) {
      Time time = time_of(work, plan_.of_world(), machine_, options_.scalar_bytes);
      if (is_backward)
        time.backward = time.total;
      else
        time.room = 0;
      plan_ += {time, work.words(), work.messages(), work.flops(), 0};
      for (const auto& t : work.transfers)
        if (t.matrix != LayerMatrix::w)
          plan_.moves_activations = true;
        else if (t.collective != CallKind::all_reduce)
          plan_.moves_weights = true;
    };
    add(c.forward, false);
    if (pass != LayerPass::forward) add(backward_of(c, pass), true);
    return c.workspace(machine_.ranks_per_node(), plan_.ranks);
  }

  /// Adds a product whose ranks read each other's blocks, without padding. Returns the workspace in
  /// elements.
  template <SchemeType S>
  std::size_t add_direct(const typename S::Axes::Array& extents, ProductSize size, LayerPass pass,
                         ProductQuanta quanta = {}, Op w_op = Op::none)
  {
    const auto c = direct_cost<S>(extents, size, plan_.of_world(), machine_, options_.scalar_bytes,
                                  quanta, w_op);
    plan_.time += c.forward;
    if (pass != LayerPass::forward) plan_.time += backward_of(c, pass);
    plan_.flops += needed_flops(size, pass) / plan_.ranks;
    return c.workspace;
  }

  /// Adds elements that are read and written in forward and in backward.
  void add_passes(double forward, double backward)
  {
    plan_.time += pass_time(forward, backward, plan_.of_world(), machine_, options_.scalar_bytes);
  }

  /// Adds the memory of a parameter, its gradient and its optimizer's state. Returns the number of
  /// elements whose state a rank keeps.
  /// @param block the block of a rank
  /// @param replicas the number of replicas of the block
  /// @param is_packed whether its gradient may travel in a bucket
  double add_parameter(Shape block, std::size_t replicas, bool is_packed = true)
  {
    auto& memory = plan_.memory_parts;
    const auto all = static_cast<double>(block.size());
    memory.parameters += bytes(all);
    if (!options_.training) return all;
    memory.gradients += bytes(all);
    if (is_packed)
      memory.workspace += bytes(static_cast<double>(
          bucket_elements(block, replicas, options_.sharded, options_.scalar_bytes)));
    // For 16-bit parameters, masters and moments are in float.
    const bool is_short = options_.scalar_bytes < sizeof(float);
    const double state =
        is_short ? double(sizeof(float)) * (options_.moments + 1) : bytes(options_.moments);
    if (!options_.sharded || replicas == 1)
    {
      memory.optimizer += state * all;
      return all;
    }
    const std::size_t part = replica_part(block, replicas);
    memory.optimizer += state * static_cast<double>(part);
    memory.gradients += bytes(static_cast<double>(part));
    if (part * replicas != block.size())
      memory.workspace += bytes(static_cast<double>(part * (replicas + 1)));
    return static_cast<double>(part);
  }
};

/// A layer of an MLP, and the number of elements of a rank's X and Y.
struct PlannedLayer
{
  bool first;
  bool last;
  double x;
  double y;

  /// The number of elements that it keeps in a step.
  [[nodiscard]] double activations(LayerPass pass) const
  {
    if (pass == LayerPass::forward) return last ? y : 2 * y;  // X W + b, and Y
    // dX, and the gradient of X W + b
    return (pass == LayerPass::whole ? x : 0) + (last ? y : 3 * y);
  }
  /// The number of elements of X and the network's copy of it, and of the user's dY.
  [[nodiscard]] double ends(LayerPass pass) const
  {
    return (first ? 2 * x : 0) + (last && pass != LayerPass::forward ? y : 0);
  }
};

/// Adds the cost of layer i on scheme `S` to a plan.
/// @param kind  1 for a layer of S::Next, else 0
template <SchemeType S>
void add_layer(StepPlanner planner, SegmentMemory& segments, std::size_t i, std::size_t kind,
               const typename S::Axes::Array& extents, const std::vector<ProductSize>& layers)
{
  Plan& plan = planner.plan_;
  const ProductSize size = layers[i];
  const auto p = cut_product<S>(extents, size);
  const PlannedLayer layer{i == 0, i + 1 == layers.size(), static_cast<double>(p.x.block.size()),
                           static_cast<double>(p.y.block.size())};
  const auto add = [&](LayerPass pass) {
    // The passes for its bias and, unless it is the last layer, its activation. Forward reads
    // X W + b and writes Y; backward reads dY and X W + b, and writes the gradient of X W + b. A
    // single layer is planned as a product, without a bias.
    if (!layer.first || !layer.last)
      planner.add_passes(layer.last ? layer.y : 2 * layer.y, pass == LayerPass::forward ? 0
                                                             : layer.last               ? layer.y
                                                                          : 3 * layer.y);
    plan.needed += needed_flops(size, pass);
    return plan.method == Method::direct
               ? planner.add_direct<S>(extents, size, pass)
               : planner.add_collectives(cost<S>(extents, size, planner.options_.gathered), pass);
  };
  const LayerPass pass = pass_of(i, planner.options_);
  const std::size_t workspace = add(pass);
  if (segments.is_recomputed(i)) add(LayerPass::forward);
  const auto ranks = static_cast<std::size_t>(plan.ranks);
  const std::size_t copies = ranks / (p.w.rows.parts() * p.w.cols.parts());
  planner.add_parameter(p.w.block, copies, plan.method == Method::collectives);
  planner.add_parameter({1, p.y.block.cols}, ranks / p.y.cols.parts());
  plan.memory_parts.activations += planner.bytes(layer.ends(pass));
  segments.add(i, kind, planner.bytes(layer.activations(pass)), planner.bytes(double(workspace)),
               planner.bytes(layer.y));
  plan.weight_copies = static_cast<int>(copies);
}

/// Returns an empty plan of scheme `S` on these extents.
/// @throws what `plan_on` throws
template <NetworkScheme S>
[[nodiscard]] Plan empty_plan(const typename S::Axes::Array& extents, int ranks,
                              const Machine& machine, const PlanOptions& options)
{
  require_fit<S>(extents);
  double needed_ranks = 1;
  for (const int e : extents) needed_ranks *= e;
  if (needed_ranks > ranks)  // writes no extents of 10^6 plans
    require<MeshError>(false, "got the extents ", S::Axes::to_string(extents), " for ", S::name,
                       ", which need ", needed_ranks, " ranks, but there are only ", ranks,
                       "; use smaller extents or more ranks");
  const int used = S::Axes::ranks(extents);
  Plan plan;
  plan.scheme = S::name;
  plan.extents.assign(extents.begin(), extents.end());
  plan.ranks = used;
  plan.idle = ranks - used;
  plan.gathered = options.gathered;
  const bool shared = machine.shares_memory(used);
  require<ArgumentError>(shared || options.method != Method::direct, "got Method::direct for ",
                         used, " ranks on nodes of ", machine.ranks_per_node(),
                         ", which cannot all read each other's memory; use Method::automatic");
  if (shared && options.method != Method::collectives) plan.method = Method::direct;
  return plan;
}

/// Returns the key by which plans are sorted: the fastest first; those that do not fit in memory
/// come last, the smallest of them first.
[[nodiscard]] inline auto order_of(const Plan& p)
{
  return std::tuple{!p.fits_memory, p.fits_memory ? p.seconds() : p.memory, p.words, p.ranks};
}
[[nodiscard]] inline bool better(const Plan& a, const Plan& b) { return order_of(a) < order_of(b); }

/// Adds the work of Muon to a plan, and the way of each kind of matrix to its note.
inline void add_muon(Plan& plan, const MuonMatrices& matrices, const Machine& machine,
                     const PlanOptions& options)
{
  constexpr int steps = 5;
  // Momentum of 16-bit weights is in float.
  const std::size_t bytes = std::max(options.scalar_bytes, sizeof(float));
  const MuonWork work = matrices.work(options.muon_way, steps, machine, bytes);
  plan.time.total += work.seconds;
  plan.time.products += work.products;
  (plan.ranks > machine.ranks_per_node() ? plan.time.across : plan.time.inside) +=
      work.seconds - work.products;
  plan.words += work.words;
  plan.flops += work.flops;
  plan.needed += work.flops * plan.ranks;
  plan.memory_parts.workspace += static_cast<double>(bytes) * work.elements;
  std::ostringstream note;
  note.imbue(std::locale::classic());
  note.precision(3);
  note << plan.note << (plan.note.empty() ? "" : "; ") << "Muon takes " << work.seconds
       << " s: " << work.ways;
  plan.note = note.str();
}

/// Completes a plan to which everything has been added.
inline void complete(Plan& plan, const Machine& machine)
{
  plan.padding = plan.flops * plan.ranks / plan.needed - 1;
  plan.memory = plan.memory_parts.total();
  plan.fits_memory = plan.memory <= machine.memory_per_rank(plan.ranks);
}

/// Returns the weights of layers.
template <SchemeType S>
[[nodiscard]] MuonMatrices muon_matrices(const typename S::Axes::Array& extents,
                                         const std::vector<ProductSize>& layers)
{
  MuonMatrices all;
  for (std::size_t i = 0; i < layers.size(); ++i)
  {
    const auto add = [&]<class Of>(std::type_identity<Of>) {
      all.add<typename Of::Weight, typename Of::Axes>(extents, Of::quantum(extents),
                                                      {layers[i].k, layers[i].n}, 1);
    };
    i % 2 == 0 ? add(std::type_identity<S>{}) : add(std::type_identity<typename S::Next>{});
  }
  return all;
}

}  // namespace detail

/// Plans scheme `S` with these extents, in a world of `ranks`. The reason is empty.
/// @throws MeshError for extents that the scheme cannot have, or that need more ranks;
/// ArgumentError for Method::direct on ranks of several nodes
template <SchemeType S>
[[nodiscard]] Plan plan_on(const typename S::Axes::Array& extents,
                           const std::vector<ProductSize>& layers, int ranks,
                           const Machine& machine = {}, const PlanOptions& options = {})
{
  require<ArgumentError>(options.lora == 0, "got LoRA of rank ", options.lora,
                         " for a network of layers, but the plan of such a network trains all "
                         "weights; plan a transformer, or leave `lora` out");
  Plan plan = detail::empty_plan<S>(extents, ranks, machine, options);
  detail::SegmentMemory segments{layers.size(), options.training ? options.recompute : 0};
  std::vector<Time> backward(layers.size());
  for (std::size_t i = 0; i < layers.size(); ++i)
  {
    const Time before = plan.time;
    const auto add = [&]<class Of>(std::type_identity<Of>) {
      detail::add_layer<Of>({plan, machine, options}, segments, i, std::is_same_v<Of, S> ? 0 : 1,
                            extents, layers);
    };
    i % 2 == 0 ? add(std::type_identity<S>{}) : add(std::type_identity<typename S::Next>{});
    backward[i].sums = plan.time.sums - before.sums;
    backward[i].room = plan.time.room - before.room;
    backward[i].backward = plan.time.backward - before.backward;
  }
  segments.add_to(plan.memory_parts);
  const double hidden = machine.hidden(plan.ranks);
  plan.time.total += hidden * rest_of_gradient_sums(backward) + (1 - hidden) * plan.time.sums;
  if (options.training && options.muon)
    detail::add_muon(plan, detail::muon_matrices<S>(extents, layers), machine, options);
  detail::complete(plan, machine);
  return plan;
}

/// Returns the extents of a plan, for a mesh of scheme `S`.
/// @throws MeshError for the plan of another scheme
template <NetworkScheme S>
[[nodiscard]] typename S::Axes::Array extents_of(const Plan& plan)
{
  require<MeshError>(plan.scheme == S::name && plan.extents.size() == S::Axes::count,
                     "got a plan for ", plan.scheme, " for a mesh of ", S::name,
                     ", so its extents mean other axes; plan with .scheme = \"", S::name,
                     "\", or make a mesh of ", plan.scheme);
  typename S::Axes::Array extents{};
  std::copy(plan.extents.begin(), plan.extents.end(), extents.begin());
  return extents;
}

}  // namespace cubist::CUBIST_ABI
