// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The processes of a context agree on who computes their calls, because a process that runs
// ScaLAPACK's routine and one that runs this library's would wait for each other for ever. The
// library may run in some processes only: CUBIST_PBLAS is off there, or LD_PRELOAD has not reached
// them.

#include <cstddef>
#include <initializer_list>

#include "blacs.hpp"

namespace cubist_pblas
{

/// Whether this library computes the calls of all processes of a context. If CUBIST_PBLAS is off in
/// some, it computes none, and one process says so. The first call on a context waits for all of
/// its processes, except where the setting is off. A process that waits for long says what the
/// others may lack.
/// @param routine as in Fortran: "pdgemm"
[[nodiscard]] bool all_compute(FortranInt context, const char* routine);

/// A call of a product, equal on all processes.
struct CallWork
{
  double operations = 0;
  std::size_t key = 0;  ///< of its sizes and layouts
};
/// @param letters, numbers, descriptors of the call; leading dimensions do not count
[[nodiscard]] CallWork work_of(double operations, std::initializer_list<const char*> letters,
                               std::initializer_list<FortranInt> numbers,
                               std::initializer_list<const FortranInt*> descriptors);

/// Whether ScaLAPACK's routine takes less time: the processes are on several nodes, where a plan
/// takes as long as a small product, and the product is small, or none of the last 32 different
/// ones and not large. All processes of the context ask for each call.
/// @pre all_compute(context, …)
[[nodiscard]] bool is_left_to_scalapack(FortranInt context, const CallWork& call);

}  // namespace cubist_pblas
