// SPDX-License-Identifier: BSD-3-Clause
// cubist's benchmarks, each a subcommand. Ranks are threads, or MPI processes under mpiexec and
// srun. Compare ratios within one run: machines are noisy.

#include <exception>
#include <iostream>

#include <CLI/CLI.hpp>

#include "../tools/strict_options.hpp"
#include "comm/calls.hpp"
#include "comm/collectives.hpp"
#include "common/job.hpp"
#include "networks/elementwise.hpp"
#include "networks/generate.hpp"
#include "networks/lora.hpp"
#include "networks/mlp.hpp"
#include "networks/muon.hpp"
#include "networks/saves.hpp"
#include "networks/tracing.hpp"
#include "networks/transformer.hpp"
#include "planner/machine.hpp"
#include "planner/papers.hpp"
#include "planner/planner.hpp"
#include "products/ceiling.hpp"
#include "products/gram.hpp"
#include "products/layers.hpp"
#include "products/matmul.hpp"
#include "products/scaling.hpp"
#include "products/weights.hpp"
#include "scalapack/pgemm.hpp"

int main(int argc, char** argv)
{
  bench::Job job;
  try
  {
    job = bench::find_job();
    CLI::App app{"cubist's benchmarks, on threads or, under mpiexec, on MPI processes"};
    app.require_subcommand(1);
    bench::Action action;
    bench::add_matmul(app, action);
    bench::add_ceiling(app, action);
    bench::add_gram(app, action);
    bench::add_mlp(app, action);
    bench::add_transformer(app, action);
    bench::add_muon(app, action);
    bench::add_lora(app, action);
    bench::add_generate(app, action);
    bench::add_collectives(app, action);
    bench::add_calls(app, action);
    bench::add_elementwise(app, action);
    bench::add_weights(app, action);
    bench::add_scaling(app, action);
    bench::add_planner(app, action);
    bench::add_layers(app, action);
    bench::add_machine(app, action);
    bench::add_tracing(app, action);
    bench::add_saves(app, action);
    bench::add_papers(app, action);
    bench::add_pgemm(app, action);
    cubist::parse_strictly(app, argc, argv);
    try
    {
      app.parse(argc, argv);
    }
    catch (const CLI::ParseError& e)
    {
      return job.first ? app.exit(e) : e.get_exit_code();
    }
    action(job);
    return 0;
  }
  catch (const std::exception& e)
  {
    if (job.first) std::cerr << "cubist_bench: " << e.what() << '\n';
    return 1;
  }
}
