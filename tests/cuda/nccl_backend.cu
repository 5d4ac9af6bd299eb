// SPDX-License-Identifier: BSD-3-Clause

// Products, a network and its checkpoints on 1, 2, 4, … GPUs of this machine, compared with one
// rank on the host; under mpiexec on its processes, which may share GPUs. Without a GPU the test
// prints that and succeeds: it has been compiled and linked.

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>

#include <cuda_runtime_api.h>
#include <unistd.h>

#include "cubist/scheme/grid3d.hpp"
#include "cubist/scheme/summa25d.hpp"

#include "comparison.hpp"
#include "gpus.hpp"
#include "host_scheme.hpp"
#include "scheme_run.hpp"

using namespace cubist;
using namespace cubist::test;

namespace
{

template <class S>
void compare(Comparison& found, int gpus, const std::string& scheme)
{
  using examples::Gpus;
  const auto host = results_on_host<S>();
  const auto all_near = [&](const NamedGlobals& got, const NamedGlobals& expected, double units) {
    found.check(got.size() == expected.size(), scheme + ": the number of results");
    for (std::size_t r = 0; r < std::min(got.size(), expected.size()); ++r)
      found.near(got[r].second, expected[r].second, units, scheme + ", " + got[r].first);
  };
  const auto compare_on = [&](const LaunchOptions& options) {
    const auto device =
        results_of<S, Gpus>(options, {}, Gpus::are_processes() ? getppid() : getpid());
    if (Gpus::are_processes() && device.products.empty()) return;  // the results are on rank 0
    all_near(device.products, host.products, 64);
    all_near(device.training, host.training, 16384);
    all_near(device.again, device.training, 0);
  };
  if (Gpus::are_processes()) return compare_on({});
  for (int ranks = 1; ranks <= gpus; ranks = ranks < gpus ? std::min(2 * ranks, gpus) : gpus + 1)
    compare_on({.ranks = ranks});
}

}  // namespace

int main()
try
{
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0)
  {
    std::printf("no GPU here: the backend for GPUs was compiled, not run\n");
    return 0;
  }
  examples::Gpus::share();
  Comparison found;
#ifndef CUBIST_QUICK_TESTS
  compare<Summa25D>(found, std::min(devices, 8), "Summa25D");
#endif
  compare<Grid3D>(found, std::min(devices, 8), "Grid3D");
  return found.report();
}
catch (const std::exception& e)
{
  std::printf("FAILED: %s\n", e.what());
  return 1;
}
