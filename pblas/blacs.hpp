// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// What the library needs from the program's ScaLAPACK: the grid and the communicator of a BLACS
// context, the report of wrong arguments, and the routines that it replaces. It also reads the
// environment:
//
//   CUBIST_PBLAS=off        every call goes to ScaLAPACK's own routine
//   CUBIST_PBLAS=all        cubist computes small calls, too, and leaves none to ScaLAPACK
//   CUBIST_PBLAS=verbose    process (0, 0) prints what each call computed, how, and how long it
//                           took
//   CUBIST_PBLAS_KEEP=0.5   how much workspace is kept between calls, as a fraction of the matrices
//   CUBIST_PBLAS_TIME_LIMIT=SECONDS
//                           how long, at most, the first call on a context waits for others

#include <chrono>
#include <optional>

#include <boost/mpi/communicator.hpp>

#include "argument_check.hpp"

namespace cubist_pblas
{

using cubist::detail::FortranInt;

/// Whether CUBIST_PBLAS is off.
[[nodiscard]] bool is_off();
/// Whether CUBIST_PBLAS is verbose.
[[nodiscard]] bool is_verbose();
/// Whether CUBIST_PBLAS is all.
[[nodiscard]] bool computes_all();
/// Returns PgemmOptions::kept from CUBIST_PBLAS_KEEP, if it is set.
[[nodiscard]] std::optional<double> kept_fraction();
/// Returns CUBIST_PBLAS_TIME_LIMIT, if it is set.
[[nodiscard]] std::optional<std::chrono::duration<double>> time_limit();

/// Returns ScaLAPACK's own routine: the next definition of the symbol after this library's, under
/// any of the names that compilers give it. If there is none, prints that and ends the job.
/// @param name its name as in Fortran: "pdgemm"
[[nodiscard]] void* next_routine(const char* name);
/// Returns ScaLAPACK's own routine, or null if there is none.
[[nodiscard]] void* find_next_routine(const char* name);

[[nodiscard]] cubist::detail::ContextGrid grid_of(FortranInt context);
[[nodiscard]] boost::mpi::communicator communicator_of(FortranInt context);

/// Reports wrong arguments as ScaLAPACK does: PB_Cwarn prints each, and PB_Cabort usually ends the
/// job.
void report(FortranInt context, const char* routine, const cubist::detail::ArgumentCheck& wrong);

/// Prints the message and ends the job.
[[noreturn]] void fail(FortranInt context, const char* routine, const char* message);

}  // namespace cubist_pblas
