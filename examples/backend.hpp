// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The examples run on any backend from one source: on MPI's ranks if mpiexec or srun started them,
// else on threads. A program of yours would name its backend: `using Backend = cubist::Mpi;`.

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
