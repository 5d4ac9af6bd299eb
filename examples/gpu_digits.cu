// SPDX-License-Identifier: BSD-3-Clause
// Runs the training of train_digits on GPUs, in float: the loss of each step must be that of one
// rank on the host. Ranks are threads, one for each GPU, or MPI processes, which may share GPUs.

#include <cstdio>
#include <exception>

#include "gpu_digits.hpp"
#include "gpus.hpp"
#include "training.hpp"

namespace
{

using Scheme = cubist::Summa25D;

/// The relative difference between losses that rounding in another order may cause.
constexpr double bound = 1e-5;

}  // namespace

int main()
try
{
  examples::Gpus::share();
  digits::Settings settings;
  settings.scalar = "float";
  settings.epochs = 5;
  const int ranks = examples::Gpus::usual_ranks();
  const auto data = digits::read(settings);
  const auto run = digits::train<examples::Gpus, Scheme, float>(data, settings, ranks,
                                                                Scheme::extents({}, ranks), true);
  if (run.losses.empty()) return 0;  // the losses are on rank 0
  const auto host = digits::train_on_host(data, settings);
  const double d = digits::difference(run.losses, host.losses);
  std::printf("largest relative difference of %zu losses from the host's: %.1e (bound %.0e)\n",
              run.losses.size(), d, bound);
  return d <= bound ? 0 : 1;
}
catch (const std::exception& e)
{
  std::fprintf(stderr, "gpu_digits: %s\n", e.what());
  return 1;
}
