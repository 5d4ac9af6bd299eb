// SPDX-License-Identifier: BSD-3-Clause

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cubist/core/error.hpp>
#include <cubist/machine/machine_json.hpp>

#include "common/options.hpp"
#include "common/row.hpp"
#include "products/matmul.hpp"
#include "scalapack/pgemm.hpp"

namespace bench
{

namespace
{

struct PgemmOptions
{
  std::vector<std::string> shapes{"2048x2048x2048", "4096x4096x4096", "4096x4096x1024",
                                  "4096x1024x4096", "8192x256x256",   "256x256x65536"};
  std::vector<std::size_t> blocks{32, 64, 128, 256};
  std::vector<std::string> ops{"N", "T"};
  std::vector<std::string> routines{"gemm"};
  Options run;
  std::string cosma;
  std::string machine;
};

/// Returns the routines to measure, each with the operation on B.
std::vector<std::pair<std::string, std::string>> calls_of(const PgemmOptions& options)
{
  std::vector<std::pair<std::string, std::string>> calls;
  for (const auto& routine : options.routines)
    for (const auto& op : routine == "gemm" ? options.ops : std::vector<std::string>{"N"})
      calls.emplace_back(routine, op);
  return calls;
}

/// Returns the size of the gemm that a routine replaces.
cubist::ProductSize size_of(const std::string& routine, cubist::ProductSize size)
{
  if (routine == "syrk")
    size.n = size.m;
  else if (routine != "gemm")
    size.k = size.m;
  return size;
}

std::string text_of(const cubist::ProductSize& size)
{
  return cubist::detail::join({size.m, "x", size.n, "x", size.k});
}

void run_pgemm(const Job& job, const PgemmOptions& options)
{
  cubist::require<cubist::ArgumentError>(
      job.mpi,
      "got a benchmark of pgemm on threads, but ScaLAPACK's matrices are on MPI processes; start "
      "it with mpiexec");
  const bool table = job.first && options.run.json != "-";
  const int ranks = ranks_of(job, options.run, job.processes);
  const auto machine =
      options.machine.empty() ? cubist::Machine{} : cubist::read_machine(options.machine);
  auto result = describe(job, "pgemm");
  if (table)
    std::printf(
        "%d processes, %s; ratios to BLAS on all cores, and the share of a call that the "
        "longest conversion or copy takes; medians of %d\n%-7s %-16s %-6s %-7s %5s %10s %7s "
        "%7s %7s %10s\n",
        ranks, job.blas().c_str(), options.run.repeats, "routine", "m x n x k", "A, B", "scalar",
        "block", "GFLOP/s", "cubist", "ScaLAP.", "COSMA", "conversion");
  for (const auto& scalar : options.run.scalars)
    for (const auto& shape : options.shapes)
      for (const auto& [routine, op] : calls_of(options))
        for (const auto block : options.blocks)
        {
          const PgemmTask task{.routine = routine,
                               .size = size_of(routine, parse_shape(shape)),
                               .block = block,
                               .scalar = scalar,
                               .transposed_b = op == "T",
                               .ranks = ranks,
                               .repeats = options.run.repeats,
                               .warm_up = options.run.warm_up,
                               .cosma = options.cosma,
                               .machine = machine};
          const auto row = pgemm_on_mpi(task);
          if (!row) continue;
          const double work = fraction_of_gemm(routine);
          const auto ratio = [&](const Times& times) {
            return times.median > 0 ? work * row->blas.median / times.median / job.machines : 0;
          };
          if (table)
          {
            std::printf("%-7s %-16s N%-5s %-7s %5zu %10.1f %7.2f %7.2f %7.2f %9.1f%%\n",
                        routine.c_str(), text_of(task.size).c_str(), op.c_str(), scalar.c_str(),
                        block, work * giga_operations(task.size) / row->ours.median,
                        ratio(row->ours), ratio(row->scalapack), ratio(row->cosma),
                        100 * row->conversion / row->ours.median);
            std::fflush(stdout);
          }
          result["rows"].push_back({{"routine", routine},
                                    {"shape", text_of(task.size)},
                                    {"op_b", op},
                                    {"scalar", scalar},
                                    {"block", block},
                                    {"ranks", ranks},
                                    {"seconds", row->ours.median},
                                    {"min_seconds", row->ours.min},
                                    {"conversion_seconds", row->conversion},
                                    {"product_seconds", row->product},
                                    {"chosen", row->chosen},
                                    {"scalapack_seconds", row->scalapack.median},
                                    {"cosma_seconds", row->cosma.median},
                                    {"blas_seconds", row->blas.median}});
        }
  if (job.first) write_json(result, options.run.json);
}

}  // namespace

void add_pgemm(CLI::App& app, Action& action)
{
  const auto options = std::make_shared<PgemmOptions>();
  auto* command = app.add_subcommand(
      "pgemm", "measures products of block-cyclic matrices beside ScaLAPACK's, under mpiexec");
  command->add_option("--shapes", options->shapes, "the products, as MxNxK")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--blocks", options->blocks, "the sizes of square blocks")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command
      ->add_option("--ops", options->ops,
                   "how B is multiplied: as it is, or transposed; A is not transposed")
      ->delimiter(',')
      ->check(CLI::IsMember({"N", "T"}))
      ->capture_default_str();
  command
      ->add_option(
          "--routines", options->routines,
          "pgemm, or a product with the lower triangle: symm, trmm or trsm of A (M, M) and "
          "B (M, N), or syrk of A (M, K)")
      ->delimiter(',')
      ->check(CLI::IsMember({"gemm", "symm", "trmm", "trsm", "syrk"}))
      ->capture_default_str();
  command->add_option("--scalars", options->run.scalars, "the types of the elements")
      ->delimiter(',')
      ->check(CLI::IsMember({"float", "double"}))
      ->capture_default_str();
  command->add_option("--repeats", options->run.repeats, "the number of measured runs")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command
      ->add_option("--warm-up", options->run.warm_up,
                   "the number of runs before these, which are not counted")
      ->capture_default_str();
  command->add_option("--json", options->run.json,
                      "write the results to this file; - for standard output");
  command->add_option("--cosma", options->cosma, "COSMA's library libcosma_pxgemm.so")
      ->check(CLI::ExistingFile);
  command
      ->add_option("--machine", options->machine,
                   "the machine's figures for the planner, a JSON file")
      ->check(CLI::ExistingFile);
  add_ranks_option(*command, options->run);
  command->callback(
      [options, &action] { action = [options](const Job& job) { run_pgemm(job, *options); }; });
}

}  // namespace bench
