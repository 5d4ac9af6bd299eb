// SPDX-License-Identifier: BSD-3-Clause

#include <mpi.h>

#include <cubist/backend/mpi.hpp>

#include "comm/calls_run.hpp"

namespace bench
{

std::optional<std::vector<CallRow>> calls_on_mpi(const CallsTask& task)
{
  return measure_calls<cubist::Mpi>(
      task, false, [&](auto& meter, const std::string& call, int calls) {
        std::vector<float> sum(1024, 1.0F), all(static_cast<std::size_t>(task.ranks));
        const float one = 1;
        if (call == "barrier") return meter.time(calls, [] { MPI_Barrier(MPI_COMM_WORLD); }).first;
        if (call == "all_gather 1")
          return meter
              .time(calls,
                    [&] {
                      MPI_Allgather(&one, 1, MPI_FLOAT, all.data(), 1, MPI_FLOAT, MPI_COMM_WORLD);
                    })
              .first;
        if (call == "all_reduce 1024")
          return meter
              .time(calls,
                    [&] {
                      MPI_Allreduce(MPI_IN_PLACE, sum.data(), 1024, MPI_FLOAT, MPI_SUM,
                                    MPI_COMM_WORLD);
                    })
              .first;
        return Times{};
      });
}

}  // namespace bench
