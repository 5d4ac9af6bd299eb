// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A backend on which each rank has a GPU: processes if mpiexec or srun started the program,
// otherwise threads. Both have the same communicator and engine, so code on top of them is compiled
// once. gpus.cpp, which nvcc does not compile, starts the ranks.

#include <functional>

#include <cubist/backend/backend.hpp>
#include <cubist/comm/nccl/communicator.hpp>
#include <cubist/engine/cuda/engine.hpp>

namespace examples
{

struct Gpus
{
  using Communicator = cubist::NcclCommunicator;
  using Engine = cubist::CudaEngine;

  [[nodiscard]] static bool are_processes();
  /// Allows several processes on one GPU (slow). Call it before the first launch.
  static void share();
  /// Registers the buffers of later launches with NCCL, or not.
  static void register_buffers(bool registered);
  /// Returns the number of processes, or of this machine's GPUs.
  /// @throws cubist::DeviceError if there is none
  [[nodiscard]] static int usual_ranks();

  template <class F>
  static void launch(int& argc, char**& argv, const cubist::LaunchOptions& options, F&& body)
  {
    start(argc, argv, options, std::ref(body));
  }

 private:
  static void start(int& argc, char**& argv, const cubist::LaunchOptions& options,
                    const std::function<void(Communicator&)>& body);
};

}  // namespace examples
