// SPDX-License-Identifier: BSD-3-Clause

#include <cstddef>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cubist/backend/threads.hpp>
#include <cubist/compiled/loops.hpp>
#include <cubist/core/error.hpp>
#include <cubist/matrix/state.hpp>
#include <cubist/nn/optimizers/optimizer.hpp>
#include <cubist/nn/transformer/transformer.hpp>
#include <cubist/scheme/catalogue.hpp>
#include <cubist/training/sharded_optimizer.hpp>

#include "common/options.hpp"
#include "common/schemes.hpp"
#include "common/times.hpp"
#include "networks/lora.hpp"

namespace bench
{

namespace
{

struct LoraBenchOptions : Options
{
  std::size_t sequences = 4;
  std::size_t length = 256;
  std::size_t layers = 2;
  std::size_t width = 1024;
  std::size_t heads = 16;
  std::size_t vocabulary = 512;
  std::size_t rank = 8;
  bool sharded = false;
};

struct LoraValues
{
  std::string mesh;
  std::vector<double> full, lora, ratios;  // seconds of a step, and their ratio, in each round
  std::size_t full_elements = 0;           // elements of gradients and moments on all ranks
  std::size_t lora_elements = 0;
  double bound = 0;  // elements of A and B, divided by those of all parameters
};

/// The number of elements of gradients and moments on this rank.
template <class Model, class O>
std::size_t elements_of(Model& model, O& optimizer)
{
  const auto parameters = model.parameters();
  std::size_t sum = 0;
  for (const auto& p : parameters) sum += p.gradient.padded.size();
  for (const auto& m : cubist::state_of(optimizer).matrices) sum += m.matrix.padded.size();
  if constexpr (requires { optimizer.reducer(); })  // a rank also has parts of gradients
    for (std::size_t i = 0; i < parameters.size(); ++i)
    {
      const auto& part = optimizer.parameters()[i].gradient.padded;
      if (part.data() != parameters[i].gradient.padded.data()) sum += part.size();
    }
  return sum;
}

/// Measures steps of both models, alternately.
/// @tparam O  the optimizer
template <class S, template <class, class> class O>
LoraValues measure(const LoraBenchOptions& options, int ranks)
{
  using B = cubist::Threads;
  using T = float;
  using Model = cubist::Transformer<S, B, T>;
  LoraValues values;
  cubist::launch<B>({.ranks = ranks}, [&](auto& world) {
    const cubist::Mesh<S, B> mesh{world, extents_for<S>(options.mesh, world.size()),
                                  cubist::IdleRanks::refused};
    const cubist::TransformerConfig config{.vocabulary = options.vocabulary,
                                           .positions = options.length,
                                           .width = options.width,
                                           .layers = options.layers,
                                           .heads = options.heads};
    std::vector<int> ids;
    for (std::size_t i = 0; i < options.sequences * options.length; ++i)
      ids.push_back(static_cast<int>((i * i + 7 * i) % options.vocabulary));
    Model full{mesh, config, {.seed = 42}};
    Model lora{mesh, config, {.seed = 42}, cubist::LoraOptions{.rank = options.rank}};
    using Optimizer = O<T, typename Model::Mesh>;
    Optimizer of_full{full.parameters()};
    Optimizer of_lora{lora.parameters()};
    const auto step = [&](Model& model, auto& optimizer) {
      world.barrier();
      return seconds([&] {
        model.compute_gradients(ids, options.length);
        optimizer.step(model.parameters());
        world.barrier();
      });
    };
    const auto elements = [&](Model& model, Optimizer& optimizer) {
      std::vector<double> sum{static_cast<double>(elements_of(model, optimizer))};
      world.all_reduce(sum);
      return static_cast<std::size_t>(sum[0]);
    };
    const std::size_t full_elements = elements(full, of_full);
    const std::size_t lora_elements = elements(lora, of_lora);
    const auto trained = [](Model& model) {
      double sum = 0;
      for (const auto& p : model.parameters())
        if (!p.frozen) sum += static_cast<double>(p.value.shape.size());
      return sum;
    };
    const double bound = trained(lora) / trained(full);
    for (int round = -options.warm_up; round < options.repeats; ++round)
    {
      const double whole = step(full, of_full);
      const double thin = step(lora, of_lora);
      if (round < 0 || world.rank() != 0) continue;
      values.full.push_back(whole);
      values.lora.push_back(thin);
      values.ratios.push_back(thin / whole);
    }
    if (world.rank() != 0) return;
    values.mesh = S::Axes::to_string(mesh.extents());
    values.full_elements = full_elements;
    values.lora_elements = lora_elements;
    values.bound = bound;
  });
  return values;
}

template <class T, class M>
using AdamW = cubist::AdamW<T, M>;
template <class T, class M>
using ShardedAdamW = cubist::Sharded<cubist::AdamW<T, M>>;

void run_lora(const Job& job, const LoraBenchOptions& options)
{
  cubist::require<cubist::ArgumentError>(
      !job.mpi, "got MPI processes, but this measures ranks that are threads, so each would "
                "measure the same; start cubist_bench without mpiexec");
  using Few = cubist::Schemes<cubist::Megatron1D, cubist::Summa25D>;
  const int ranks = ranks_of(job, options, 8);
  auto json = describe(job, "lora");
  if (options.json != "-")
    std::printf(
        "Steps with AdamW in float on %d threads, %zu blocks of width %zu, %zu x %zu tokens, "
        "LoRA of rank %zu beside all layers; medians of %d rounds in ms.\nstate: elements "
        "of gradients and moments on all ranks%s. A and B: their share of the elements of all "
        "parameters.\n%-12s %-12s %9s %9s %7s %12s %12s %7s %7s\n",
        ranks, options.layers, options.width, options.sequences, options.length, options.rank,
        options.repeats, options.sharded ? ", sharded among replicas" : "", "scheme", "mesh",
        "full", "LoRA", "ratio", "state", "of LoRA", "ratio", "A and B");
  for (const auto& scheme : options.schemes)
  {
    const auto v = cubist::with_scheme<Few>(scheme, [&]<class S>() {
      return options.sharded ? measure<S, ShardedAdamW>(options, ranks)
                             : measure<S, AdamW>(options, ranks);
    });
    const double state =
        static_cast<double>(v.lora_elements) / static_cast<double>(v.full_elements);
    json["rows"].push_back({{"backend", job.backend()},
                            {"ranks", ranks},
                            {"scheme", scheme},
                            {"mesh", v.mesh},
                            {"scalar", "float"},
                            {"sequences", options.sequences},
                            {"length", options.length},
                            {"layers", options.layers},
                            {"width", options.width},
                            {"heads", options.heads},
                            {"vocabulary", options.vocabulary},
                            {"rank", options.rank},
                            {"repeats", options.repeats},
                            {"warm_up", options.warm_up},
                            {"full_seconds", median(v.full)},
                            {"seconds", median(v.lora)},
                            {"ratio", median(v.ratios)},
                            {"full_elements", v.full_elements},
                            {"elements", v.lora_elements},
                            {"sharded", options.sharded},
                            {"state_ratio", state},
                            {"bound", v.bound}});
    if (options.json != "-")
      std::printf("%-12s %-12s %9.2f %9.2f %7.3f %12zu %12zu %7.4f %7.4f\n", scheme.c_str(),
                  v.mesh.c_str(), 1e3 * median(v.full), 1e3 * median(v.lora), median(v.ratios),
                  v.full_elements, v.lora_elements, state, v.bound);
  }
  write_json(json, options.json);
}

}  // namespace

void add_lora(CLI::App& app, Action& action)
{
  const auto options = std::make_shared<LoraBenchOptions>();
  options->schemes = {"Megatron1D", "Summa25D"};
  options->repeats = 5;
  auto* command = app.add_subcommand(
      "lora", "measures a step of a transformer with LoRA beside one that trains all weights");
  command->add_option("--ranks", options->ranks, "the number of ranks")->check(CLI::PositiveNumber);
  command->add_option("--schemes", options->schemes, "Megatron1D, Summa25D")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--mesh", options->mesh, "the extents of the mesh")->delimiter(',');
  const auto size = [&](const char* name, std::size_t& value, const char* what) {
    command->add_option(name, value, what)->check(CLI::PositiveNumber)->capture_default_str();
  };
  size("--sequences", options->sequences, "the sequences of a step");
  size("--length", options->length, "the tokens of a sequence");
  size("--layers", options->layers, "the number of blocks");
  size("--width", options->width, "the features of a token");
  size("--heads", options->heads, "the heads of attention");
  size("--vocabulary", options->vocabulary, "the number of tokens");
  size("--rank", options->rank, "the rank of LoRA's matrices");
  command->add_flag("--sharded", options->sharded, "shard the optimizer's state among replicas");
  command
      ->add_option("--repeats", options->repeats, "the number of rounds, each with a step of both")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--json", options->json,
                      "write the results to this file; - for standard output");
  command->callback(
      [options, &action] { action = [options](const Job& job) { run_lora(job, *options); }; });
}

}  // namespace bench
