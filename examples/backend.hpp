// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The backend of the examples: MPI if mpiexec or srun started them, else threads. Other programs
// name their backend: `using Backend = cubist::Mpi;`.

#include <cubist/cubist.hpp>
#ifdef CUBIST_EXAMPLES_WITH_MPI
#include <cubist/backend/mpi.hpp>
#endif

namespace examples
{

/// f.template operator()<Backend>()
template <class F>
int on_backend(F f)
{
#ifdef CUBIST_EXAMPLES_WITH_MPI
  if (cubist::Mpi::started()) return f.template operator()<cubist::Mpi>();
#endif
  return f.template operator()<cubist::Threads>();
}

}  // namespace examples
