// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The processor cores that the MPI processes of one node may run on. mpiexec may bind each process
// to some of them.

#include <algorithm>
#include <cstddef>
#include <vector>

#include <mpi.h>
#include <sched.h>

#include "cubist/comm/mpi/transport/context.hpp"

namespace cubist::CUBIST_ABI::detail
{

struct Cores
{
  int node = 1;     // cores that at least one process of the node may run on
  int process = 1;  // cores of this process, divided by the processes that share them

  /// Counts the cores of a node and of this process. Collective over the communicator.
  /// @pre all processes of the communicator are on one node
  [[nodiscard]] static Cores of(MPI_Comm node)
  {
    struct Set  // nvcc 13.0 rejects a vector of cpu_set_t
    {
      cpu_set_t cores;
    };
    int ranks = 1;
    MPI_Comm_size(node, &ranks);
    Set mine;
    CPU_ZERO(&mine.cores);
    sched_getaffinity(0, sizeof mine.cores, &mine.cores);
    std::vector<Set> all(static_cast<std::size_t>(ranks));
    mpi_check(MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE, node),
              "MPI_Allgather", "the exchange of the cores of a node");
    Set any = mine;
    for (const auto& set : all) CPU_OR(&any.cores, &any.cores, &set.cores);
    const auto sharing = std::count_if(
        all.begin(), all.end(), [&](const Set& set) { return CPU_EQUAL(&set.cores, &mine.cores); });
    return {std::max(1, CPU_COUNT(&any.cores)),
            std::max(1, CPU_COUNT(&mine.cores) / static_cast<int>(sharing))};
  }

  /// Counts the cores of this process. Collective over a communicator, which may span nodes.
  [[nodiscard]] static int of_process(MPI_Comm comm)
  {
    MPI_Comm node = MPI_COMM_NULL;
    MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    const int cores = of(node).process;
    MPI_Comm_free(&node);
    return cores;
  }
};

}  // namespace cubist::CUBIST_ABI::detail
