// SPDX-License-Identifier: BSD-3-Clause

#include <cubist/backend/nccl.hpp>
#ifdef CUBIST_EXAMPLES_WITH_MPI
#include <cubist/backend/mpi.hpp>
#endif

#include "gpus.hpp"

namespace examples
{

namespace
{
#ifdef CUBIST_EXAMPLES_WITH_MPI
using OnProcesses = cubist::NcclOn<cubist::Mpi>;
#else
using OnProcesses = cubist::Nccl;
#endif
}  // namespace

bool Gpus::are_processes()
{
#ifdef CUBIST_EXAMPLES_WITH_MPI
  return cubist::Mpi::started();
#else
  return false;
#endif
}

void Gpus::share() { OnProcesses::options.share_gpus = OnProcesses::ranks_are_processes; }

void Gpus::register_buffers(bool registered)
{
  OnProcesses::options.registered_buffers = registered;
  cubist::Nccl::options.registered_buffers = registered;
}

int Gpus::usual_ranks()
{
  int ranks = cubist::detail::gpu_count();
#ifdef CUBIST_EXAMPLES_WITH_MPI
  if (are_processes()) cubist::launch<cubist::Mpi>({}, [&](auto& world) { ranks = world.size(); });
#endif
  return ranks;
}

void Gpus::start(int& argc, char**& argv, const cubist::LaunchOptions& options,
                 const std::function<void(Communicator&)>& body)
{
  if (are_processes())
    OnProcesses::launch(argc, argv, options, body);
  else
    cubist::Nccl::launch(argc, argv, options, body);
}

}  // namespace examples
