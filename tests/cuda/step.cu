// SPDX-License-Identifier: BSD-3-Clause

// Training steps that are captured and replayed on a GPU have the bits of steps that are run: on 1,
// 2, 4, … GPUs of this machine, under mpiexec on its processes, which may share GPUs. Without a GPU
// the test prints that and succeeds: it has been compiled and linked.

#include <algorithm>
#include <cstdio>
#include <exception>
#include <mutex>

#include <cuda_runtime_api.h>

#include "cubist/scheme/summa25d.hpp"

#include "comparison.hpp"
#include "gpus.hpp"
#include "replayed_steps.hpp"

using namespace cubist;
using namespace cubist::test;

namespace
{

using examples::Gpus;

void compare(Comparison& found, const LaunchOptions& options)
{
  std::mutex mutex;  // of `found`, where ranks are threads
  launch<Gpus>(options, [&](auto& world) {
    const Mesh<Summa25D, Gpus> mesh{world};
    const auto run = train_in_steps<Summa25D, Gpus>(mesh, false);
    const auto replayed = train_in_steps<Summa25D, Gpus>(mesh, true);
    const std::lock_guard lock{mutex};
    found.check(run.captures == 0 && replayed.captures == 2, "the number of captures");
    found.check(replayed.losses == run.losses, "losses");
    found.check(replayed.parameters == run.parameters, "parameters");
  });
}

}  // namespace

int main()
try
{
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0)
  {
    std::printf("no GPU here: replayed steps were compiled, not run\n");
    return 0;
  }
  Gpus::share();
  Comparison found;
  if (Gpus::are_processes())
    compare(found, {});
  else
    for (int ranks = 1; ranks <= std::min(devices, 8); ranks *= 2) compare(found, {.ranks = ranks});
  return found.report();
}
catch (const std::exception& e)
{
  std::printf("FAILED: %s\n", e.what());
  return 1;
}
