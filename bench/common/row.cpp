// SPDX-License-Identifier: BSD-3-Clause

#include <cstdio>
#include <string>

#include <nlohmann/json.hpp>

#include "common/row.hpp"

namespace bench
{

const char* to_string(cubist::Method method)
{
  switch (method)
  {
  case cubist::Method::automatic:
    return "automatic";
  case cubist::Method::collectives:
    return "collectives";
  case cubist::Method::direct:
    return "direct";
  }
  return "";
}

cubist::Method parse_method(const std::string& text)
{
  for (const auto m : {cubist::Method::collectives, cubist::Method::direct})
    if (text == to_string(m)) return m;
  return cubist::Method::automatic;
}

nlohmann::json to_json(const Job& job, const Setting& setting, const Row& row)
{
  const auto scalapack = [&](double value) {
    return row.scalapack_block > 0 ? nlohmann::json(value) : nlohmann::json();
  };
  return {{"scheme", row.scheme},
          {"mesh", row.mesh},
          {"backend", job.backend()},
          {"algorithm", to_string(row.method)},
          {"ranks", setting.ranks},
          {"nodes", job.nodes},
          {"overlap", setting.overlap},
          {"scalar", setting.scalar},
          {"repeats", setting.repeats},
          {"warm_up", setting.warm_up},
          {"seconds", row.cost.total.median},
          {"min_seconds", row.cost.total.min},
          {"compute_seconds", row.cost.compute()},
          {"communication_seconds", row.cost.communication},
          {"words_per_rank", row.cost.mean_words},
          {"most_words_per_rank", row.cost.most_words},
          {"formula_words_per_rank", row.formula_words},
          {"messages_per_rank", row.cost.most_messages},
          {"gflops", row.gflops(row.cost.total)},
          {"blas_seconds", row.blas.median},
          {"blas_gflops", row.gflops(row.blas)},
          {"ratio", row.ratio(job)},
          {"scalapack_seconds", scalapack(row.scalapack.median)},
          {"scalapack_gflops", scalapack(row.gflops(row.scalapack))},
          {"scalapack_block", scalapack(row.scalapack_block)}};
}

void print_header(const Job& job, int repeats, const char* what)
{
  const std::string where =
      job.simulated.empty() ? job.backend() + (", " + job.blas()) : "simulated on " + job.simulated;
  std::printf("%s; GFLOP/s and seconds, medians of %d\n"
              "%-9s %-24s %-7s %-16s %8s %8s %6s %8s %8s %9s %7s",
              where.c_str(), repeats, "scheme", "mesh", "scalar", what, "cubist", "BLAS", "ratio",
              "compute", "communi.", "words", "formula");
}

void print_row(const Job& job, const Setting& setting, const Row& row, const std::string& what)
{
  char formula[32] = "1.000";
  if (row.formula_words == 0 && row.cost.mean_words > 0)
    std::snprintf(formula, sizeof formula, "-");
  else if (row.cost.mean_words != row.formula_words)
    std::snprintf(formula, sizeof formula, "%.3f", row.cost.mean_words / row.formula_words);
  std::printf("%-9s %-24s %-7s %-16s %8.1f %8.1f %6.2f %8.4f %8.4f %9.3g %7s", row.scheme.c_str(),
              row.mesh.c_str(), setting.scalar.c_str(), what.c_str(), row.gflops(row.cost.total),
              row.gflops(row.blas), row.ratio(job), row.cost.compute(), row.cost.communication,
              row.cost.mean_words, formula);
}

void add_torch(nlohmann::json& json, const Row& row)
{
  const auto torch = [&](const auto& value) {
    return row.torch.measured() ? nlohmann::json(value) : nlohmann::json();
  };
  json["torch_seconds"] = torch(row.torch.times.median);
  json["torch_min_seconds"] = torch(row.torch.times.min);
  json["torch_gflops"] = torch(row.gflops(row.torch.times));
  json["torch_threads"] = torch(row.torch.threads);
  json["torch_version"] = torch(row.torch.version);
}

std::string sizes_text(const std::vector<std::size_t>& sizes)
{
  std::string text;
  for (const auto size : sizes) text.append(" ").append(std::to_string(size));
  return text;
}

void end_row_with_torch(const Row& row)
{
  if (row.torch.measured())
    std::printf(" %8.2f\n", row.blas.median / row.torch.times.median);
  else
    std::printf(" %8s\n", "-");
  std::fflush(stdout);
}

}  // namespace bench
