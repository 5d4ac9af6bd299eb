// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The processes of a context agree on who computes their calls, because a process that runs
// ScaLAPACK's routine and one that runs this library's would wait for each other for ever. The
// library may run in some processes only: CUBIST_PBLAS is off there, or LD_PRELOAD has not reached
// them.

#include "blacs.hpp"

namespace cubist_pblas
{

/// Whether this library computes the calls of all processes of a context. If CUBIST_PBLAS is off in
/// some, it computes none, and one process says so. The first call on a context waits for all of
/// its processes, except where the setting is off. A process that waits for long says what the
/// others may lack.
/// @param routine as in Fortran: "pdgemm"
[[nodiscard]] bool all_compute(int context, const char* routine);

}  // namespace cubist_pblas
