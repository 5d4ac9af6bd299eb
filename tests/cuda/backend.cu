// SPDX-License-Identifier: BSD-3-Clause

// Compares products, a network and its checkpoints on 1, 2, 4, … GPUs of this machine with one rank
// on the host. Under mpiexec it runs on the processes, which may share GPUs.

#include <algorithm>
#include <string>

#include <unistd.h>

#include "cubist/scheme/grid3d.hpp"
#include "cubist/scheme/summa25d.hpp"

#include "checks.hpp"
#include "gpus.hpp"
#include "host_scheme.hpp"
#include "scheme_run.hpp"

using namespace cubist;
using namespace cubist::test;

namespace
{

using examples::Gpus;

template <class S>
void compare(Comparison& found, const std::string& scheme)
{
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
  const int gpus = std::min(Gpus::usual_ranks(), 8);
  for (int ranks = 1; ranks <= gpus; ranks = ranks < gpus ? std::min(2 * ranks, gpus) : gpus + 1)
    compare_on({.ranks = ranks});
}

}  // namespace

void cubist::test::check_backend(Comparison& found)
{
#ifndef CUBIST_QUICK_TESTS
  compare<Summa25D>(found, "Summa25D");
#endif
  compare<Grid3D>(found, "Grid3D");
}
