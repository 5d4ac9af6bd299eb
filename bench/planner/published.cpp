// SPDX-License-Identifier: BSD-3-Clause

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <cubist/core/error.hpp>
#include <cubist/machine/find_machine.hpp>
#include <cubist/machine/machine_json.hpp>
#include <cubist/plan/planner.hpp>

#include "common/job.hpp"
#include "planner/published.hpp"

namespace bench
{

namespace
{

constexpr std::size_t published_length = 2048;  // tokens of one sequence

struct PublishedModel
{
  const char* name;
  std::size_t width;
  std::size_t layers;
};
constexpr std::array published_models{
    PublishedModel{"760m", 1536, 24}, PublishedModel{"1b", 2048, 24},
    PublishedModel{"3b", 2560, 32},   PublishedModel{"7b", 4096, 32},
    PublishedModel{"13b", 5120, 40},  PublishedModel{"30b", 7168, 48},
    PublishedModel{"70b", 8192, 80}};

/// A row of the tables.
struct PublishedRow
{
  const char* machine;
  const char* model;
  int gpus;
  std::size_t micro_batch;   // sequences on one GPU
  std::size_t accumulated;   // micro-batches in a step
  double tokens_per_second;  // on one GPU
  bool recomputes;           // whether backward recomputes each block
  bool sums_in_float;        // gradients; true for mixed precision DEFAULT, false for PURE
};

constexpr std::array published_rows{PublishedRow{"dgx_h100", "70b", 64, 8, 4, 1039, true, true},
                                    PublishedRow{"dgx_h100", "70b", 32, 2, 16, 882, true, true},
                                    PublishedRow{"dgx_h100", "30b", 32, 14, 3, 2308, true, true},
                                    PublishedRow{"dgx_h100", "30b", 16, 10, 3, 2263, true, true},
                                    PublishedRow{"dgx_h100", "30b", 8, 3, 21, 2002, true, true},
                                    PublishedRow{"dgx_h100", "13b", 64, 2, 1, 4800, false, true},
                                    PublishedRow{"dgx_h100", "13b", 32, 2, 1, 4811, false, true},
                                    PublishedRow{"dgx_h100", "13b", 16, 2, 1, 4767, false, true},
                                    PublishedRow{"dgx_h100", "13b", 8, 2, 1, 4792, false, true},
                                    PublishedRow{"dgx_h100", "7b", 8, 6, 1, 10643, false, true},
                                    PublishedRow{"dgx_h100", "3b", 64, 6, 3, 22525, false, true},
                                    PublishedRow{"dgx_h100", "3b", 32, 6, 3, 23021, false, true},
                                    PublishedRow{"dgx_h100", "3b", 16, 10, 3, 24142, false, true},
                                    PublishedRow{"dgx_h100", "1b", 64, 20, 1, 44402, false, true},
                                    PublishedRow{"dgx_h100", "1b", 32, 20, 1, 45130, false, true},
                                    PublishedRow{"dgx_h100", "1b", 16, 20, 1, 46037, false, true},
                                    PublishedRow{"dgx_h100", "1b", 8, 14, 1, 45455, false, true},
                                    PublishedRow{"dgx_h100", "760m", 32, 24, 1, 67971, false, true},
                                    PublishedRow{"dgx_h100", "760m", 16, 24, 1, 68551, false, true},
                                    PublishedRow{"dgx_h100", "760m", 8, 24, 2, 63147, false, true},
                                    PublishedRow{"dgx_a100", "70b", 128, 4, 1, 376, true, false},
                                    PublishedRow{"dgx_a100", "70b", 64, 2, 1, 276, true, false},
                                    PublishedRow{"dgx_a100", "30b", 128, 6, 1, 865, true, false},
                                    PublishedRow{"dgx_a100", "30b", 32, 4, 1, 857, true, false},
                                    PublishedRow{"dgx_a100", "13b", 128, 16, 1, 1972, true, false},
                                    PublishedRow{"dgx_a100", "13b", 64, 16, 1, 1976, true, false},
                                    PublishedRow{"dgx_a100", "13b", 32, 14, 1, 1998, true, false},
                                    PublishedRow{"dgx_a100", "13b", 16, 10, 1, 1993, true, false},
                                    PublishedRow{"dgx_a100", "13b", 8, 4, 16, 1668, true, false},
                                    PublishedRow{"dgx_a100", "7b", 128, 18, 1, 3623, true, false},
                                    PublishedRow{"dgx_a100", "7b", 64, 18, 1, 3665, true, false},
                                    PublishedRow{"dgx_a100", "7b", 32, 18, 1, 3725, true, false},
                                    PublishedRow{"dgx_a100", "7b", 16, 16, 1, 3645, true, false},
                                    PublishedRow{"dgx_a100", "7b", 8, 12, 4, 3679, true, false},
                                    PublishedRow{"dgx_a100", "3b", 32, 6, 1, 9914, false, false},
                                    PublishedRow{"dgx_a100", "3b", 16, 5, 1, 9750, false, false},
                                    PublishedRow{"dgx_a100", "3b", 8, 5, 8, 10065, false, false},
                                    PublishedRow{"dgx_a100", "1b", 128, 10, 1, 18647, false, false},
                                    PublishedRow{"dgx_a100", "1b", 64, 10, 1, 19001, false, false},
                                    PublishedRow{"dgx_a100", "1b", 16, 8, 1, 19085, false, false},
                                    PublishedRow{"dgx_a100", "1b", 8, 8, 8, 19271, false, false}};

[[nodiscard]] cubist::TransformerConfig config_of(const std::string& name)
{
  const auto model = std::find_if(published_models.begin(), published_models.end(),
                                  [&](const PublishedModel& m) { return name == m.name; });
  return {.vocabulary = 50368,
          .positions = published_length,
          .width = model->width,
          .layers = model->layers,
          .heads = model->width / 128};
}

constexpr std::size_t published_scalar_bytes = 2;
// Bytes that their program reads and writes, and that cubist's plan does not count.
constexpr double loss_bytes = 36 - 8;        // for a logit: softmax and loss are in float
constexpr double optimizer_bytes = 80 + 12;  // for an element of a parameter: AdamW, clipping

/// Returns the seconds of one GPU's products and passes for a micro-batch, without the optimizer.
[[nodiscard]] double compute_seconds(const PublishedRow& row, const cubist::Machine& machine,
                                     bool training)
{
  const cubist::TokenBatch batch{row.micro_batch * static_cast<std::size_t>(row.gpus),
                                 published_length};
  const cubist::PlanOptions options{.scalar_bytes = published_scalar_bytes,
                                    .training = training,
                                    .recompute = training && row.recomputes ? 1U : 0U};
  const auto plan = cubist::plan_on<cubist::DataParallel<cubist::Megatron1D>>(
      {row.gpus, 1}, cubist::TransformerStep{config_of(row.model), batch}, row.gpus, machine,
      options);
  const double updates = training ? plan.memory_parts.parameters *
                                        cubist::detail::optimizer_passes(options) /
                                        machine.pass_bandwidth(row.gpus)
                                  : 0;
  return plan.time.products + plan.time.passes - updates;
}

/// Returns the seconds that all GPUs take to gather parameters that are sharded among them, or
/// reduce and scatter the gradients.
[[nodiscard]] double exchange_seconds(double elements, const PublishedRow& row,
                                      const cubist::Machine& machine, std::size_t bytes)
{
  return cubist::seconds({.collective = cubist::CallKind::all_gather,
                          .matrix = cubist::LayerMatrix::w,
                          .ranks = row.gpus,
                          .count = static_cast<std::size_t>(elements / row.gpus)},
                         row.gpus, machine, bytes);
}

/// Predicts the seconds of a step as their program runs it (published.hpp).
[[nodiscard]] double predicted_seconds(const PublishedRow& row, const cubist::Machine& machine)
{
  const auto config = config_of(row.model);
  const auto blocks = static_cast<double>(config.layers);
  const auto all = static_cast<double>(config.parameters());
  const auto logits = static_cast<double>(row.micro_batch * published_length * config.vocabulary);
  const double bandwidth = machine.pass_bandwidth(row.gpus);
  const double loss = logits * loss_bytes / bandwidth;
  const double forward = compute_seconds(row, machine, false);
  const double backward = compute_seconds(row, machine, true) - forward;

  const auto ends = static_cast<double>((config.vocabulary + config.positions) * config.width);
  const double block = (all - ends) / blocks;
  const double gather = exchange_seconds(block, row, machine, published_scalar_bytes);
  const double reduce = exchange_seconds(
      block, row, machine, row.sums_in_float ? sizeof(float) : published_scalar_bytes);
  const double passes = all * (row.sums_in_float ? 18 : 8) / bandwidth;
  const auto overlapped = [&](double computing, double travelling) {
    return blocks * std::max(computing / blocks, travelling);
  };
  const double micro_batch = exchange_seconds(ends, row, machine, published_scalar_bytes) + gather +
                             overlapped(forward, gather) + loss + blocks * gather +
                             overlapped(backward + passes, reduce) + reduce;
  return static_cast<double>(row.accumulated) * micro_batch +
         all / row.gpus * optimizer_bytes / bandwidth;
}

/// Returns the planner's first choice for the whole step.
[[nodiscard]] cubist::Plan first_choice(const PublishedRow& row, const cubist::Machine& machine)
{
  const std::size_t sequences =
      row.micro_batch * row.accumulated * static_cast<std::size_t>(row.gpus);
  return cubist::plan(cubist::TransformerStep{config_of(row.model), {sequences, published_length}},
                      row.gpus, machine,
                      {.scalar_bytes = published_scalar_bytes,
                       .data_parallel = true,
                       .sharded = true,
                       .recompute = row.recomputes ? 1U : 0U,
                       .pipeline = true})
      .front();
}

}  // namespace

std::vector<std::string> published_model_names()
{
  std::vector<std::string> names;
  for (const auto& model : published_models) names.emplace_back(model.name);
  return names;
}

void run_published(const std::vector<std::string>& models, int most_gpus, const std::string& json)
{
  std::vector<PublishedRow> chosen;
  for (const auto& row : published_rows)
    if (row.gpus <= most_gpus && std::find(models.begin(), models.end(), row.model) != models.end())
      chosen.push_back(row);
  cubist::require<cubist::ArgumentError>(
      !chosen.empty(), "got no row of at most ", most_gpus,
      " GPUs for these models, so there is nothing to predict; leave out --most-gpus or --models");
  auto rows = nlohmann::json::array();
  std::vector<double> errors;
  std::printf("| machine | model | GPUs | sequences | published, s | predicted, s | error | first "
              "choice | predicted, s |\n|---|---|---|---|---|---|---|---|---|\n");
  for (const auto& row : chosen)
  {
    const auto machine =
        cubist::read_machine(cubist::find_machine(row.machine, {CUBIST_BENCH_MACHINES}));
    const double published =
        static_cast<double>(row.accumulated * row.micro_batch * published_length) /
        row.tokens_per_second;
    const double predicted = predicted_seconds(row, machine);
    const auto first = first_choice(row, machine);
    const double error = predicted / published - 1;
    errors.push_back(std::abs(error));
    std::printf("| %s | %s | %d | %zu x %zu%s | %.3g | %.3g | %+.0f %% | `%s` %s%s | %.3g |\n",
                row.machine, row.model, row.gpus, row.micro_batch, row.accumulated,
                row.recomputes ? ", recomputed" : "", published, predicted, 100 * error,
                first.scheme.c_str(), cubist::mesh_text(first).c_str(),
                first.fits_memory ? "" : ", does not fit", first.seconds());
    std::fflush(stdout);
    rows.push_back({{"machine", row.machine},
                    {"model", row.model},
                    {"gpus", row.gpus},
                    {"micro_batch", row.micro_batch},
                    {"accumulated", row.accumulated},
                    {"recomputes", row.recomputes},
                    {"published_seconds", published},
                    {"predicted_seconds", predicted},
                    {"first_scheme", first.scheme},
                    {"first_mesh", first.extents},
                    {"first_seconds", first.seconds()}});
  }
  std::sort(errors.begin(), errors.end());
  std::printf("\n%zu rows: median error %.1f %%, worst %.0f %%\n", errors.size(),
              100 * errors[errors.size() / 2], 100 * errors.back());
  write_json({{"benchmark", "published"}, {"rows", rows}}, json);
}

}  // namespace bench
