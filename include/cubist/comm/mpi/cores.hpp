// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The cores that MPI's processes of one node may run on: mpiexec binds each to some of them, or
// leaves them all to all.

#include <algorithm>
#include <cstddef>
#include <vector>

#include <mpi.h>
#include <sched.h>

#include "cubist/comm/mpi/context.hpp"

namespace cubist::detail
{

struct Cores
{
  int together = 1;  // on which any of the processes may run
  int share = 1;     // of this process: its own, or its part of those that it shares

  /// Every process of `node` calls this.
  /// @pre all processes of the communicator are on one node
  [[nodiscard]] static Cores of(MPI_Comm node)
  {
    struct Set  // nvcc 13.0 fails at a vector of cpu_set_t
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
              "MPI_Allgather", "the cores of a node");
    Set any = mine;
    for (const auto& set : all) CPU_OR(&any.cores, &any.cores, &set.cores);
    const auto sharing = std::count_if(
        all.begin(), all.end(), [&](const Set& set) { return CPU_EQUAL(&set.cores, &mine.cores); });
    return {std::max(1, CPU_COUNT(&any.cores)),
            std::max(1, CPU_COUNT(&mine.cores) / static_cast<int>(sharing))};
  }
};

}  // namespace cubist::detail
