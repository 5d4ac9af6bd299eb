// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The backend of the examples: MPI if mpiexec or srun started them, otherwise threads. Other
// programs name their backend: `using Backend = cubist::Mpi;`.

#include <string>

#include <cubist/cubist.hpp>
#ifndef CUBIST_COMPILED
#include <cubist/trace/traced.hpp>
#endif
#ifdef CUBIST_EXAMPLES_WITH_MPI
#include <cubist/backend/mpi.hpp>
#endif

namespace examples
{

/// Whether mpiexec or srun started the ranks.
inline bool on_processes()
{
#ifdef CUBIST_EXAMPLES_WITH_MPI
  return cubist::Mpi::started();
#else
  return false;
#endif
}

/// Calls f.template operator()<Backend>().
template <class F>
int on_backend(F f)
{
#ifdef CUBIST_EXAMPLES_WITH_MPI
  if (on_processes()) return f.template operator()<cubist::Mpi>();
#endif
  return f.template operator()<cubist::Threads>();
}

#ifdef CUBIST_COMPILED

// The compiled library has the backends, but not the traced ones, for which a program would compile
// all layers again.

using OneRank = cubist::Threads;

inline void stop_tracing() {}

/// Calls f.template operator()<Backend>(), without a trace.
/// @throws ArgumentError for the name of a file
template <class F>
int on_traced_backend(const std::string& file, F f)
{
  cubist::require<cubist::ArgumentError>(
      file.empty(), "got --trace ", file,
      " for a program that is linked to the compiled library, which has no traced backends, so "
      "nothing would be recorded; build it with CUBIST_BUILD_LIBRARY=OFF");
  return on_backend(f);
}

#else

/// Threads with a trace, as in `on_traced_backend`, so that a program compiles once for both.
using OneRank = cubist::Traced<cubist::Threads>;

/// Stops later launches from writing a trace.
inline void stop_tracing() { OneRank::options = {}; }

/// Calls f.template operator()<Backend>() on a backend that writes a trace to `file`, unless that
/// is empty.
template <class F>
int on_traced_backend(const std::string& file, F f)
{
  return on_backend([&]<class Backend>() {
    using Traced = cubist::Traced<Backend>;
    Traced::options = {.file = file};
    return f.template operator()<Traced>();
  });
}

#endif

}  // namespace examples
