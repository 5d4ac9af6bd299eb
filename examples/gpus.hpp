// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A backend of ranks with a GPU each: processes if mpiexec or srun started the program, else
// threads. Both have the same communicator and engine, so code on top of them is compiled once.

#include <utility>

#include <cubist/backend/nccl.hpp>
#ifdef CUBIST_EXAMPLES_WITH_MPI
#include <cubist/backend/mpi.hpp>
#endif

namespace examples
{

struct Gpus
{
  using Communicator = cubist::NcclCommunicator;
  using Engine = cubist::CudaEngine;

#ifdef CUBIST_EXAMPLES_WITH_MPI
  using OnProcesses = cubist::NcclOn<cubist::Mpi>;
  [[nodiscard]] static bool are_processes() { return cubist::Mpi::started(); }
  /// Allows several processes on one GPU (slow); to be called before the first launch.
  static void share() { OnProcesses::options.share_gpus = true; }
#else
  using OnProcesses = cubist::Nccl;
  [[nodiscard]] static bool are_processes() { return false; }
  static void share() {}
#endif

  /// The number of processes, or of GPUs of this machine.
  /// @throws cubist::DeviceError if there is none
  [[nodiscard]] static int usual_ranks()
  {
    int ranks = cubist::detail::gpu_count();
#ifdef CUBIST_EXAMPLES_WITH_MPI
    if (are_processes())
      cubist::launch<cubist::Mpi>({}, [&](auto& world) { ranks = world.size(); });
#endif
    return ranks;
  }

  template <class F>
  static void launch(int& argc, char**& argv, const cubist::LaunchOptions& options, F&& body)
  {
    if (are_processes())
      OnProcesses::launch(argc, argv, options, body);
    else
      cubist::Nccl::launch(argc, argv, options, body);
  }
};

}  // namespace examples
