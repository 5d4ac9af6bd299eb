// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// NCCL with threads as ranks, each with a compute stream.

#include <chrono>

#include "cubist/backend/threads.hpp"
#include "cubist/comm/nccl/communicator.hpp"
#include "cubist/cuda/stream.hpp"

#include "staged_communicator.hpp"

namespace cubist::test
{

/// Runs `body(nccl, compute_stream, host)` on ranks that are threads.
template <class F>
void with_nccl(int ranks, NcclOptions options, F body)
{
  int argc = 0;
  char** argv = nullptr;
  Threads::launch(argc, argv, {.ranks = ranks}, [&](ThreadsCommunicator& host) {
    const detail::CudaStream compute;
    auto own = options;
    own.stream = compute.get();
    auto world = NcclCommunicator::make(host, host.rank(), own);
    body(world, compute.get(), host);
  });
}

struct NcclOnThreads
{
  using Communicator = StagedCommunicator;
  using Engine = HostEngine;

  template <class F>
  static void launch(int&, char**&, const LaunchOptions& options, F&& body)
  {
    NcclOptions nccl;
    nccl.time_limit = std::chrono::minutes{1};
    with_nccl(options.ranks.value_or(2), nccl, [&](NcclCommunicator& inner, auto&&...) {
      StagedCommunicator world{inner};
      body(world);
    });
  }
};

}  // namespace cubist::test
