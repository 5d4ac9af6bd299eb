// SPDX-License-Identifier: BSD-3-Clause

// Compares transformers on 1, 2, 4, … GPUs of this machine with what Hugging Face and PyTorch
// computed. Under mpiexec it runs on the processes, which may share GPUs.

#include <algorithm>
#include <mutex>

#include "cubist/scheme/summa25d.hpp"

#include "checks.hpp"
#include "gpus.hpp"
#include "transformer_reference.hpp"

using namespace cubist;
using namespace cubist::test;

namespace
{

using examples::Gpus;

void compare(Comparison& found, const ReferenceModel& model, const LaunchOptions& options)
{
  std::mutex mutex;  // guards `found` if ranks are threads
  launch<Gpus>(options, [&](auto& world) {
    const Mesh<Summa25D, Gpus> mesh{world};
    const auto findings = check_reference<Summa25D, Gpus, float>(mesh, model);
    const std::lock_guard lock{mutex};
    found.check(findings.checks() > 0, model.folder + ": nothing was checked");
    for (const auto& message : findings.wrong()) found.check(false, model.folder + ": " + message);
  });
}

}  // namespace

void cubist::test::check_transformers(Comparison& found)
{
  for (const auto* model : {&gpt2_tiny(), &llama_tiny()})
    if (Gpus::are_processes())
      compare(found, *model, {});
    else
      for (int ranks = 1; ranks <= std::min(Gpus::usual_ranks(), 8); ranks *= 2)
        compare(found, *model, {.ranks = ranks});
}
