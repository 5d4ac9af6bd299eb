// SPDX-License-Identifier: BSD-3-Clause

#include <algorithm>

#include <gpus.hpp>

#include <cubist/backend/nccl.hpp>

#include "gpu/find_gpus.hpp"

namespace bench
{

void find_gpus(Job& job, bool share)
{
  const int local_gpus = cubist::detail::gpu_count();
  cubist::require<cubist::ArgumentError>(
      !share || job.mpi,
      "got --share-gpus, but the ranks are threads, which NCCL does not let share a GPU; start "
      "processes with mpiexec and a cubist_bench_gpu that was built with MPI");
  if (share) examples::Gpus::share();
  job.gpus = !job.mpi ? local_gpus
             : share  ? std::min(job.processes, job.nodes * local_gpus)
                      : job.processes;
  cudaDeviceProp properties{};
  cubist::detail::require_cuda(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties",
                               "device 0");
  job.gpu = properties.name;
  job.gpu_memory = properties.totalGlobalMem;
}

}  // namespace bench
