// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// TestBackend, the backend on which tests of layers above backend/ run: threads; with
// CUBIST_TEST_MPI, MPI; with CUBIST_TEST_NCCL, NCCL on its fake; with both, NCCL itself on MPI
// processes.

#include <type_traits>

#include "cubist/testing/counting.hpp"
#if defined(CUBIST_TEST_MPI) && defined(CUBIST_TEST_NCCL)
#include "nccl_on_mpi.hpp"
#elif defined(CUBIST_TEST_MPI)
#include "cubist/backend/mpi.hpp"
#elif defined(CUBIST_TEST_NCCL)
#include "nccl_on_threads.hpp"
#else
#include "cubist/backend/threads.hpp"
#endif
#include "cubist/comm/window.hpp"

namespace cubist::test
{

#if defined(CUBIST_TEST_MPI) && defined(CUBIST_TEST_NCCL)
using TestBackend = NcclOnMpi;
#elif defined(CUBIST_TEST_MPI)
using TestBackend = Mpi;
#elif defined(CUBIST_TEST_NCCL)
using TestBackend = NcclOnThreads;
#else
using TestBackend = Threads;
#endif

/// Whether the ranks of a backend are processes, each of which runs the test.
#ifdef CUBIST_TEST_MPI
template <class B>
inline constexpr bool on_processes = std::is_base_of_v<Mpi, B>;
#else
template <class B>
inline constexpr bool on_processes = false;
#endif
template <class B>
inline constexpr bool on_processes<Counting<B>> = on_processes<B>;

#ifdef CUBIST_TEST_MPI
/// Whether all processes are on one node. The first call is collective, and main makes it.
[[nodiscard]] inline bool one_node()
{
  static const bool one = [] {
    MPI_Comm node = MPI_COMM_NULL;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    int here = 0;
    int all = 0;
    MPI_Comm_size(node, &here);
    MPI_Comm_size(MPI_COMM_WORLD, &all);
    MPI_Comm_free(&node);
    return here == all;
  }();
  return one;
}
#endif

/// Whether the ranks of a backend can expose memory in these tests. Processes on several nodes
/// cannot.
template <class B>
[[nodiscard]] bool exposes()
{
  if constexpr (!ExposesMemory<typename B::Communicator>) return false;
#ifdef CUBIST_TEST_MPI
  return one_node();
#else
  return true;
#endif
}

}  // namespace cubist::test
