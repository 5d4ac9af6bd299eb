// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The backend that tests of layers above backend/ run on: a test says TestBackend, and is built for
// threads and, with CUBIST_TEST_MPI, for MPI.

#include <type_traits>

#include "cubist/backend/counting.hpp"
#ifdef CUBIST_TEST_MPI
#include "cubist/backend/mpi.hpp"
#else
#include "cubist/backend/threads.hpp"
#endif
#include "cubist/comm/lender.hpp"

namespace cubist::test
{

#ifdef CUBIST_TEST_MPI
using TestBackend = Mpi;
#else
using TestBackend = Threads;
#endif

/// Whether the ranks of a backend are processes, of which each runs the test.
#ifdef CUBIST_TEST_MPI
template <class B>
inline constexpr bool on_processes = std::is_base_of_v<Mpi, B>;
#else
template <class B>
inline constexpr bool on_processes = false;
#endif
template <class B>
inline constexpr bool on_processes<Counting<B>> = on_processes<B>;

/// Whether the ranks of a backend can lend each other memory in tests.
template <class B>
inline constexpr bool lends = Lender<typename B::Communicator>;

}  // namespace cubist::test
