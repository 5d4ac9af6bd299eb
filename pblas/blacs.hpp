// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// What the library needs of the program's ScaLAPACK: the grid and the communicator of a BLACS
// context, the report of wrong arguments, and the routines that it replaces. And the environment:
//
//   CUBIST_PBLAS=off        every call goes to ScaLAPACK's own routine
//   CUBIST_PBLAS=verbose    process (0, 0) prints what each call has computed, how, and its time
//   CUBIST_PBLAS_KEEP=0.5   how much workspace is kept between calls, as a fraction of the matrices
//   CUBIST_PBLAS_TIME_LIMIT=SECONDS
//                           the first call on a context waits no longer for other processes

#include <chrono>
#include <optional>

#include <boost/mpi/communicator.hpp>

#include "argument_check.hpp"

namespace cubist_pblas
{

/// Whether CUBIST_PBLAS is off, and whether it is verbose.
[[nodiscard]] bool is_off();
[[nodiscard]] bool is_verbose();
/// CUBIST_PBLAS_KEEP: PgemmOptions::kept.
[[nodiscard]] std::optional<double> kept_fraction();
/// CUBIST_PBLAS_TIME_LIMIT.
[[nodiscard]] std::optional<std::chrono::duration<double>> time_limit();

/// The next definition of a symbol after this library's, under the names that compilers give it:
/// ScaLAPACK's own routine. Without one, prints that, and ends the job.
/// @param name as in Fortran: "pdgemm"
[[nodiscard]] void* next_routine(const char* name);

[[nodiscard]] cubist::detail::ContextGrid grid_of(int context);
[[nodiscard]] boost::mpi::communicator communicator_of(int context);

/// Reports wrong arguments as ScaLAPACK does: PB_Cwarn prints each, and PB_Cabort usually ends the
/// job.
void report(int context, const char* routine, const cubist::detail::ArgumentCheck& wrong);

/// Prints the message, and ends the job.
[[noreturn]] void fail(int context, const char* routine, const char* message);

}  // namespace cubist_pblas
