// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// NCCL with MPI processes as ranks, on one machine. If there are more processes than GPUs, they
// share the GPUs, and each gets its own host id, because NCCL 2.28 rejects two ranks of one host on
// a GPU.

#include <chrono>

#include "cubist/backend/mpi.hpp"
#include "cubist/backend/nccl.hpp"
#include "cubist/comm/nccl/communicator.hpp"
#include "cubist/cuda/stream.hpp"

#include "staged_communicator.hpp"

namespace cubist::test
{

/// Prepares this process's GPU, and returns the number of GPUs. Must be called before NCCL.
inline int prepare_gpus(int processes, int process)
{
  int devices = 0;
  detail::cuda_check(cudaGetDeviceCount(&devices), "cudaGetDeviceCount", [] { return "a test"; });
  if (processes > devices) detail::set_own_host_id(process, false);
  return devices;
}

struct NcclOnMpi : Mpi
{
  using Communicator = StagedCommunicator;
  using Engine = HostEngine;

  template <class F>
  static void launch(int& argc, char**& argv, const LaunchOptions& requested, F&& body)
  {
    Mpi::launch(argc, argv, requested, [&](MpiCommunicator& host) {
      const boost::mpi::communicator all;
      static const int devices = prepare_gpus(all.size(), all.rank());
      const detail::CudaStream compute;
      NcclOptions nccl;
      nccl.stream = compute.get();
      nccl.time_limit = std::chrono::minutes{1};
      StagedCommunicator world{NcclCommunicator::make(host, all.rank() % devices, nccl)};
      body(world);
    });
  }
};

}  // namespace cubist::test
