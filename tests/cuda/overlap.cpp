// SPDX-License-Identifier: BSD-3-Clause

// Runs collectives beside products (tests/nccl/overlap.hpp) on all GPUs of this machine, or under
// mpiexec on the processes, which may share GPUs. Buffers are from CUDA's pool, or registered.

#include <array>
#include <cstddef>
#include <string>

#include "checks.hpp"
#include "gpus.hpp"
#include "overlap.hpp"

using namespace cubist;
using namespace cubist::test;

void cubist::test::check_overlap(Comparison& found)
{
  using examples::Gpus;
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
}
