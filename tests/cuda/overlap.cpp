// SPDX-License-Identifier: BSD-3-Clause

// Collectives beside products (tests/nccl/overlap.hpp) on all GPUs of this machine, or under
// mpiexec on its processes, which may share GPUs; with buffers of CUDA's pool, and with registered
// ones. Without a GPU the test prints that and succeeds: it has been compiled and linked.

#include <array>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <string>

#include <cuda_runtime_api.h>

#include "comparison.hpp"
#include "gpus.hpp"
#include "overlap.hpp"

using namespace cubist;
using namespace cubist::test;

int main()
try
{
  using examples::Gpus;
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0)
  {
    std::printf("no GPU here: the test of overlap was compiled, not run\n");
    return 0;
  }
  Gpus::share();
  Comparison found;
  for (const bool registered : {false, true})
  {
    Gpus::register_buffers(registered);
    launch<Gpus>({}, [&](NcclCommunicator& world) {
      const std::size_t wrong = Overlap<Gpus>{world, 1024}.run(4);
      std::array<int, 1> all{static_cast<int>(wrong)};
      CudaBuffer<int> sum(1);
      const MatrixView<int> device{sum.data(), {1, 1}};
      CudaEngine{}.upload(MatrixView<const int>{all.data(), {1, 1}}, device);
      world.all_reduce(device.elements());
      CudaEngine{}.download(MatrixView<const int>{device}, MatrixView<int>{all.data(), {1, 1}});
      if (world.rank() == 0)
        found.check(all[0] == 0, std::to_string(all[0]) + " elements are wrong" +
                                     (registered ? " in registered buffers" : ""));
    });
  }
  return found.report();
}
catch (const std::exception& e)
{
  std::printf("FAILED: %s\n", e.what());
  return 1;
}
