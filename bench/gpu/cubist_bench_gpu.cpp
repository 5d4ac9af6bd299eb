// SPDX-License-Identifier: BSD-3-Clause
// cubist's benchmarks on GPUs, with cuBLAS on one GPU as the baseline. Ranks are threads, or
// processes under mpiexec and srun, and each has a GPU.

#include <exception>
#include <iostream>

#include <CLI/CLI.hpp>

#include "../../tools/strict_options.hpp"
#include "common/job.hpp"
#include "gpu/device_elementwise.hpp"
#include "gpu/find_gpus.hpp"
#include "gpu/step.hpp"
#include "networks/mlp.hpp"
#include "networks/transformer.hpp"
#include "planner/machine.hpp"
#include "products/matmul.hpp"

int main(int argc, char** argv)
{
  bench::Job job;
  try
  {
    job = bench::find_job();
    CLI::App app{"cubist's benchmarks, with a GPU for each rank"};
    app.require_subcommand(1);
    bool share = false;
    app.add_flag("--share-gpus", share, "let several MPI processes share a GPU; slow");
    bench::Action action;
    bench::add_matmul(app, action);
    bench::add_mlp(app, action);
    bench::add_transformer(app, action);
    bench::add_step(app, action);
    bench::add_machine(app, action);
    bench::add_device_elementwise(app, action);
    cubist::parse_strictly(app, argc, argv);
    try
    {
      app.parse(argc, argv);
    }
    catch (const CLI::ParseError& e)
    {
      return job.first ? app.exit(e) : e.get_exit_code();
    }
    bench::find_gpus(job, share);
    action(job);
    return 0;
  }
  catch (const std::exception& e)
  {
    if (job.first) std::cerr << "cubist_bench_gpu: " << e.what() << '\n';
    return 1;
  }
}
