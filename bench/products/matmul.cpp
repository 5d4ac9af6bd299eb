// SPDX-License-Identifier: BSD-3-Clause

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <sstream>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cubist/core/error.hpp>

#include "common/options.hpp"
#include "products/matmul.hpp"

namespace bench
{

namespace
{

struct MatmulOptions : Options
{
  std::vector<std::size_t> sizes;
  std::vector<std::string> shapes;
  std::string scalapack = "auto";
  double bandwidth = 0;  // Gbit/s
};

/// The shortest seconds that the network allows if each rank has a link of `gigabits` a second.
struct Bound
{
  double wire;  // to send the elements of the busiest rank
  double compute;

  Bound(const MatmulTask& task, const Row& row, double gigabits)
      : wire{8e-9 * row.cost.most_words * (task.on.scalar == "float" ? 4 : 8) / gigabits},
        compute{row.blas.median}
  {
  }
  [[nodiscard]] double overlapped() const { return std::max(wire, compute); }
  [[nodiscard]] double sum() const { return wire + compute; }
};

std::vector<cubist::ProductSize> sizes_of(const MatmulOptions& options)
{
  std::vector<cubist::ProductSize> sizes;
  for (const auto n : options.sizes) sizes.push_back({n, n, n});
  for (const auto& shape : options.shapes) sizes.push_back(parse_shape(shape));
  if (sizes.empty()) return {{1024, 1024, 1024}, {2048, 2048, 2048}, {4096, 4096, 4096}};
  return sizes;
}

/// Returns all products to measure.
/// @throws cubist::Error for options that contradict each other
std::vector<MatmulTask> tasks_of(const Job& job, const MatmulOptions& options)
{
  std::vector<MatmulTask> tasks;
  for (auto setting : settings_of(job, options))
    for (const auto& size : sizes_of(options))
      for (const bool overlap : overlaps(job, options))
      {
        setting.overlap = overlap;
        tasks.push_back({setting, size, options.scalapack == "auto", false, options.bandwidth > 0});
      }
  return tasks;
}

void print_header(const Job& job, const MatmulOptions& options)
{
  print_header(job, options.repeats, "m x n x k");
  std::printf(" %9s", job.gpus > 0 ? "share" : "ScaLAPACK");
  if (options.overlap == "both") std::printf(" %7s", "overlap");
  if (options.bandwidth > 0)
    std::printf(" %8s %8s %8s %10s", "bound", "sum", "apart", "time/apart");
  std::printf("\n");
}

void print(const Job& job, const MatmulOptions& options, const MatmulTask& task, const Row& row)
{
  print_row(job, task.on, row, to_string(task.size));
  if (job.gpus > 0)
    std::printf(" %8.1f%%", 100 * row.cost.communication / row.cost.total.median);
  else
    print_scalapack(row);
  if (options.overlap == "both") std::printf(" %7s", task.on.overlap ? "on" : "off");
  if (options.bandwidth > 0)
  {
    const Bound bound{task, row, options.bandwidth};
    std::printf(" %8.4f %8.4f %8.4f %10.2f", bound.overlapped(), bound.sum(), row.apart.median,
                row.cost.total.median / row.apart.median);
  }
  std::printf("\n");
  std::fflush(stdout);
}

void run_matmul(const Job& job, const MatmulOptions& options)
{
  const auto tasks = tasks_of(job, options);
  const bool table = job.first && options.json != "-";
  if (table) print_header(job, options);
  auto result = describe(job, "matmul");
  for (const auto& task : tasks)
  {
    const auto row = matmul_on(job, task);
    if (!row) continue;
    if (table) print(job, options, task, *row);
    auto json = to_json(job, task, *row);
    if (options.bandwidth > 0)
    {
      const Bound bound{task, *row, options.bandwidth};
      json["bandwidth_gbit_per_second"] = options.bandwidth;
      json["wire_seconds"] = bound.wire;
      json["bound_seconds"] = bound.overlapped();
      json["apart_seconds"] = row->apart.median;
    }
    result["rows"].push_back(json);
  }
  if (job.first) write_json(result, options.json);
}

}  // namespace

std::string to_string(cubist::ProductSize s)
{
  return std::to_string(s.m) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k);
}

cubist::ProductSize parse_shape(const std::string& text)
{
  std::istringstream in{text};
  cubist::ProductSize s;
  char first = 0;
  char second = 0;
  in >> s.m >> first >> s.n >> second >> s.k;
  cubist::require<cubist::ShapeError>(
      !in.fail() && in.eof() && first == 'x' && second == 'x' && s.m > 0 && s.n > 0 && s.k > 0 &&
          text.find('-') == std::string::npos,
      "got the shape ", text,
      ", but a product has three positive sizes; write MxNxK, for instance 4096x4096x1024");
  return s;
}

nlohmann::json to_json(const Job& job, const MatmulTask& task, const Row& row)
{
  auto json = to_json(job, task.on, row);
  json["m"] = task.size.m;
  json["n"] = task.size.n;
  json["k"] = task.size.k;
  json["communication_share"] = row.cost.communication / row.cost.total.median;
  return json;
}

void print_scalapack(const Row& row)
{
  if (row.scalapack_block > 0)
    std::printf(" %5.1f/%-3d", row.gflops(row.scalapack), row.scalapack_block);
  else
    std::printf(" %9s", "-");
}

void add_matmul(CLI::App& app, Action& action)
{
  const auto options = std::make_shared<MatmulOptions>();
  auto* command = app.add_subcommand(
      "matmul", "measures products beside BLAS on all cores and, under MPI, beside ScaLAPACK");
  add_scheme_options(*command, *options);
  add_mesh_options(*command, *options);
  command
      ->add_option("--sizes", options->sizes,
                   "the sizes n of n x n x n products; by default 1024,2048,4096")
      ->delimiter(',')
      ->check(CLI::PositiveNumber);
  command->add_option("--shapes", options->shapes, "other products, as MxNxK")->delimiter(',');
  command
      ->add_option("--scalapack", options->scalapack,
                   "auto: also measure ScaLAPACK if it was found")
      ->check(CLI::IsMember({"auto", "off"}))
      ->capture_default_str();
  command
      ->add_option(
          "--bandwidth", options->bandwidth,
          "the bandwidth of a rank's link in Gbit/s; also shows the time that it allows, and the "
          "time of as many elements and products apart")
      ->check(CLI::PositiveNumber);
  command->callback(
      [options, &action] { action = [options](const Job& job) { run_matmul(job, *options); }; });
}

}  // namespace bench
