// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Finds the fastest scheme and mesh for a network on a machine. It predicts the time of a step for
// every scheme of the catalogue on every mesh with at most the given number of ranks, with the
// method that will run there, and sorts the plans by time.
//
//   auto plans = plan(mlp_layers(4096, {1024, 4096, 1024}), 64, machine);  // or, for a
//   transformer, auto plans = plan(TransformerStep{transformer_model("gpt2"), {8, 1024}}, 64,
//   machine); with_scheme(plans.front().scheme, [&]<class S>() { Mesh<S, Mpi> mesh{world,
//   plans.front()}; });
//
// largest_batch(plans.front(), step, machine) is the largest batch that fits there.

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "cubist/machine/machine.hpp"
#include "cubist/plan/meshes.hpp"
#include "cubist/plan/pipeline_plan.hpp"
#include "cubist/plan/plan.hpp"
#include "cubist/plan/reason.hpp"
#include "cubist/plan/transformer_plan.hpp"
#include "cubist/scheme/catalogue.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

/// What reasons say about all plans, including those that are not kept.
class AllPlans
{
 public:
  void add(const Plan& plan)
  {
    const auto ranks = static_cast<std::size_t>(plan.ranks);
    if (by_ranks_.size() <= ranks) by_ranks_.resize(ranks + 1);
    auto& rivals = by_ranks_[ranks];
    rivals.least_words =
        rivals.of_same == 0 ? plan.words : std::min(rivals.least_words, plan.words);
    ++rivals.of_same;
  }
  /// Writes the reasons of sorted plans, of which the first two are the fastest of all.
  void add_reasons(std::vector<Plan>& plans, double unit, const Machine& machine) const
  {
    std::string reason;
    for (auto& plan : plans)
    {
      auto rivals = by_ranks_[static_cast<std::size_t>(plan.ranks)];
      rivals.unit = unit;
      rivals.first = &plan == plans.data();
      rivals.other = !rivals.first ? plans.data() : plans.size() > 1 ? &plans[1] : nullptr;
      reason.clear();
      add_reason(reason, plan, rivals, machine);
      plan.reason = reason;  // without the spare room of a string that has grown
    }
  }

 private:
  std::vector<Rivals> by_ranks_;
};

inline void add_reasons(std::vector<Plan>& plans, double unit, const Machine& machine)
{
  AllPlans all;
  for (const auto& plan : plans) all.add(plan);
  all.add_reasons(plans, unit, machine);
}

/// Sorts plans by order_of(); equal ones keep their order. There may be 10^6 of half a kilobyte, so
/// each moves once, and only keys are sorted.
inline void sort_plans(std::vector<Plan>& plans)
{
  using Key = decltype(std::tuple_cat(order_of(plans.front()), std::tuple{std::size_t{}}));
  std::vector<Key> keys;
  keys.reserve(plans.size());
  for (const Plan& plan : plans)
    keys.push_back(std::tuple_cat(order_of(plan), std::tuple{keys.size()}));
  std::sort(keys.begin(), keys.end());
  const auto source = [&](std::size_t i) -> std::size_t& { return std::get<std::size_t>(keys[i]); };
  // Follows each cycle of the permutation; source(i) becomes i when plan i is in its place.
  for (std::size_t first = 0; first < plans.size(); ++first)
  {
    if (source(first) == first) continue;
    Plan displaced = std::move(plans[first]);
    std::size_t to = first;
    while (source(to) != first)
    {
      const std::size_t from = std::exchange(source(to), to);
      plans[to] = std::move(plans[from]);
      to = from;
    }
    source(to) = to;
    plans[to] = std::move(displaced);
  }
}

template <class F>
void for_each_divisor(int n, F f)
{
  for (int d = 1; d <= n; ++d)
    if (n % d == 0) f(d);
}

/// Calls use.operator()<P>(extents) for stages of equal meshes on all ranks, each with a data axis.
template <class P, class Use>
void for_each_in_stages(const TransformerStep& step, int ranks, const PlanOptions& options, Use use)
{
  using D = typename P::StageScheme;
  using S = typename D::Scheme;
  for_each_divisor(ranks, [&](int p) {
    if (p == 1 || pipeline_choices(step, static_cast<std::size_t>(p), options).empty()) return;
    for_each_divisor(ranks / p, [&](int d) {
      cubist::for_each_mesh<S>(ranks / p / d, [&](const auto& e) {
        if (S::Axes::ranks(e) * d * p == ranks)
          use.template operator()<P>(P::extents_of(p, D::extents_of(d, e)));
      });
    });
  });
}

/// Calls use.operator()<S>(extents) for each scheme and mesh that the options allow for a network.
template <class Network, class Use>
void for_each_candidate(const Network& network, int ranks, const PlanOptions& options, Use use)
{
  // One mesh of at most `ranks` ranks.
  const auto whole = [&]<class S>() {
    cubist::for_each_mesh<S>(ranks, [&](const auto& e) { use.template operator()<S>(e); });
  };
  // d meshes, each of at most ranks / d ranks.
  const auto replicas = [&]<class D>() {
    for_each_divisor(ranks, [&](int d) {
      if (d == 1) return;
      cubist::for_each_mesh<typename D::Scheme>(
          ranks / d, [&](const auto& e) { use.template operator()<D>(D::extents_of(d, e)); });
    });
  };
  const auto in_stages = [&]<class P>() {
    if constexpr (std::is_same_v<Network, TransformerStep>)
      for_each_in_stages<P>(network, ranks, options, use);
  };

  const std::string& only = options.scheme;
  const auto allows = [&](const char* name) { return only.empty() || same_name(only, name); };
  if (has_scheme<DataCatalogue>(only))
    with_scheme<DataCatalogue>(only, whole);
  else if (has_scheme<PipelineCatalogue>(only))
    with_scheme<PipelineCatalogue>(only, in_stages);
  else if (only.empty())
    for_each_scheme(whole);
  else
    with_scheme(only, whole);
  if (options.data_parallel)
    for_each_scheme<DataCatalogue>([&]<class D>() {
      if (allows(D::Scheme::name)) replicas.template operator()<D>();
    });
  if (options.pipeline)
    for_each_scheme<PipelineCatalogue>([&]<class P>() {
      if (allows(P::StageScheme::Scheme::name)) in_stages.template operator()<P>();
    });
}

/// The number of elements in M·h.
[[nodiscard]] inline double unit_of(const std::vector<ProductSize>& layers)
{
  return double(layers.front().m) * double(layers.front().k);
}
[[nodiscard]] inline double unit_of(const TransformerStep& step)
{
  return double(step.batch.tokens()) * double(step.model.width);
}

/// Makes all plans, and returns those that are wanted, sorted.
/// @param network  layers, or anything else that `plan_on` takes
/// @param keep  keep(plans) erases unwanted plans from sorted ones, but not the first two. It is
/// called for some hundred new plans at a time, and at the end. If it is empty, all are kept
template <class Network>
[[nodiscard]] std::vector<Plan> sorted_plans(const Network& network, int ranks,
                                             const Machine& machine, const PlanOptions& options,
                                             const std::function<void(std::vector<Plan>&)>& keep)
{
  require_valid(network);
  require_valid(machine);
  constexpr int most = 1 << 16;
  require<MeshError>(ranks >= 1, "got ", ranks,
                     " ranks, but a mesh has at least one; use a positive number");
  require<MeshError>(ranks <= most, "got ", ranks,
                     " ranks, which have more meshes than can be planned; use at most ", most);
  require<ArgumentError>(
      options.scalar_bytes > 0,
      "got elements of 0 bytes, which cannot hold a number; use the size of the scalar");
  constexpr std::size_t together = 1024;  // so few stay in a cache
  std::size_t room = 0;                   // for plans, before unwanted ones are erased
  if (keep)
    room = together;
  else
    for_each_candidate(network, ranks, options,
                       [&]<class S>(const typename S::Axes::Array&) { ++room; });
  std::vector<Plan> plans;
  plans.reserve(room);
  AllPlans all;
  for_each_candidate(network, ranks, options, [&]<class S>(const typename S::Axes::Array& extents) {
    plans.push_back(plan_on<S>(extents, network, ranks, machine, options));
    all.add(plans.back());
    if (!keep || plans.size() < room) return;
    sort_plans(plans);
    keep(plans);
    room = 2 * plans.size() + together;
  });
  sort_plans(plans);
  if (keep) keep(plans);
  all.add_reasons(plans, unit_of(network), machine);
  return plans;
}

/// Implements `plan`.
template <class Network>
[[nodiscard]] std::vector<Plan> fastest_plans(const Network& network, int ranks,
                                              const Machine& machine, const PlanOptions& options)
{
  if (options.top == 0) return sorted_plans(network, ranks, machine, options, {});
  const auto keep = [](std::vector<Plan>& plans, std::size_t count) {
    if (plans.size() > count) plans.erase(plans.begin() + std::ptrdiff_t(count), plans.end());
  };
  auto plans = sorted_plans(network, ranks, machine, options, [&](std::vector<Plan>& found) {
    keep(found, std::max<std::size_t>(options.top, 2));
  });
  keep(plans, options.top);
  return plans;
}

/// Returns the layers for a batch of this many rows.
[[nodiscard]] inline std::vector<ProductSize> with_batch(std::vector<ProductSize> layers,
                                                         std::size_t rows)
{
  for (auto& layer : layers) layer.m = rows;
  return layers;
}
/// Returns the step for this many sequences.
[[nodiscard]] inline TransformerStep with_batch(TransformerStep step, std::size_t sequences)
{
  step.batch.sequences = sequences;
  return step;
}

/// Returns the maximum number of rows, or of sequences, for which a network is valid.
[[nodiscard]] inline std::size_t most_batch(const std::vector<ProductSize>& layers)
{
  std::size_t widest = 1;
  for (const auto& layer : layers) widest = std::max({widest, layer.n, layer.k});
  return static_cast<std::size_t>(most_elements / static_cast<double>(widest));
}
[[nodiscard]] inline std::size_t most_batch(const TransformerStep& step)
{
  const double row = static_cast<double>(step.model.completed().widest());
  return static_cast<std::size_t>(most_elements / row / static_cast<double>(step.batch.length));
}

/// Returns the largest n up to `most` for which fits(n) holds, or 0 if there is none.
/// @pre if fits(n) is false, it is false for all larger numbers, too
template <class Fits>
[[nodiscard]] std::size_t largest_that_fits(std::size_t most, Fits fits)
{
  std::size_t fitting = 0;
  std::size_t next = 1;
  while (next <= most && fits(next))
  {
    fitting = next;
    next *= 2;
  }
  while (next - fitting > 1)
  {
    const std::size_t middle = fitting + (next - fitting) / 2;
    (middle <= most && fits(middle) ? fitting : next) = middle;
  }
  return fitting;
}

}  // namespace detail

/// Returns all plans, or `options.top` of them, the fastest first; those that do not fit in memory
/// come last.
/// @throws ArgumentError if there are no layers, for an unknown scheme, or for an invalid machine;
/// ShapeError for layers that `require_valid` refuses; MeshError for fewer than one rank or more
/// than 65,536
[[nodiscard]] inline std::vector<Plan> plan(const std::vector<ProductSize>& layers, int ranks,
                                            const Machine& machine = {},
                                            const PlanOptions& options = {})
{
  return detail::fastest_plans(layers, ranks, machine, options);
}

/// Plans a step of a transformer, like plan() for an MLP.
/// @throws ShapeError for sizes that `require_valid` refuses
[[nodiscard]] inline std::vector<Plan> plan(const TransformerStep& step, int ranks,
                                            const Machine& machine = {},
                                            const PlanOptions& options = {})
{
  return detail::fastest_plans(step, ranks, machine, options);
}

/// Plans one product.
[[nodiscard]] inline std::vector<Plan>
plan(ProductSize size, int ranks, const Machine& machine = {}, const PlanOptions& options = {})
{
  return plan(std::vector{size}, ranks, machine, options);
}

/// Returns the largest batch that fits in the memory of a rank on the scheme and mesh of a plan:
/// rows of layers, sequences of a transformer; 0 if not even one does. One more does not fit. In
/// stages, the number of micro-batches stays that of the plan.
/// @param network the layers or the step of the plan; its batch is ignored
/// @param options the options of the plan
template <class Network>
[[nodiscard]] std::size_t largest_batch(const Plan& plan, const Network& network,
                                        const Machine& machine = {},
                                        const PlanOptions& options = {})
{
  require_valid(machine);
  require_valid(network);
  const std::size_t most = std::min(std::size_t{1} << 40U, detail::most_batch(network));
  PlanOptions of_plan = options;
  of_plan.micro_batches = plan.micro_batches;
  of_plan.pieces = plan.pieces;
  const auto largest = [&]<class S>() {
    const auto extents = extents_of<S>(plan);
    // The largest micro-batch determines the memory.
    const std::size_t m = plan.micro_batches;
    return m * detail::largest_that_fits(most / m, [&](std::size_t n) {
             return plan_on<S>(extents, detail::with_batch(network, n * m), plan.ranks + plan.idle,
                               machine, of_plan)
                 .fits_memory;
           });
  };
  if constexpr (std::is_same_v<Network, TransformerStep>)
    if (has_scheme<PipelineCatalogue>(plan.scheme))
      return with_scheme<PipelineCatalogue>(plan.scheme, largest);
  return with_scheme<WholeCatalogue>(plan.scheme, largest);
}

/// Returns the fastest extents of one scheme; ranks may be left idle.
/// @param network  layers, or a TransformerStep
/// @throws what `plan` throws
template <SchemeType S, class Network>
[[nodiscard]] typename S::Axes::Array
auto_mesh(const Network& network, int ranks, const Machine& machine = {}, PlanOptions options = {})
{
  options.scheme = S::name;
  options.top = 1;
  return extents_of<S>(plan(network, ranks, machine, options).front());
}

}  // namespace cubist::CUBIST_ABI
