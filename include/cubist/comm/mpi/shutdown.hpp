// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// What the end of a launch needs: an agreement of its ranks on how it ended, and communicators that
// outlive it after a failure.

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <boost/mpi/communicator.hpp>
#include <mpi.h>

#include "cubist/comm/backoff.hpp"
#include "cubist/comm/mpi/context.hpp"
#include "cubist/comm/mpi/failure.hpp"
#include "cubist/comm/mpi/progress.hpp"
#include "cubist/comm/mpi/returned_ranks.hpp"

namespace cubist::detail
{

/// Keeps a value until the process ends.
template <class T>
void leak(T value)
{
  static auto& all = *new std::vector<T>;
  all.push_back(std::move(value));
}

/// Never frees a communicator that may have pending messages after a failure: MPI would reuse its
/// number for a new one, which would receive them.
inline void leak_communicator(boost::mpi::communicator comm) { leak(std::move(comm)); }

/// The minimum of `value` over all ranks, which it returns at the end of their bodies; nothing if
/// some rank has not called it within `limit`. Meanwhile it answers ranks that still wait for this
/// one.
[[nodiscard]] inline std::optional<int> agree_on_minimum(MpiProgress& progress, int value,
                                                         std::chrono::steady_clock::duration limit)
{
  auto values = std::make_unique<std::array<int, 2>>(std::array{value, value});
  int* const mine = values->data();
  MPI_Request request = MPI_REQUEST_NULL;
  const auto start = [&] {
    mpi_check(MPI_Iallreduce(mine, mine + 1, 1, MPI_INT, MPI_MIN, progress.comm(), &request),
              "MPI_Iallreduce", "the end of a launch");
  };
  bool is_started = false;
  // A rank takes part once its questions are answered, so that none is in flight in the end.
  const auto is_complete = [&](MpiReturnedRanks& returned, const MpiFailures& failures) {
    returned.exchange();
    if (!is_started && !returned.has_all_answers() && !failures.is_broken()) return false;
    if (!std::exchange(is_started, true)) start();
    int complete = 0;
    mpi_check(MPI_Test(&request, &complete, MPI_STATUS_IGNORE), "MPI_Test", "the end of a launch");
    if (complete != 0) returned.end();
    return complete != 0;
  };
  for (Backoff backoff;; backoff.pause())
  {
    progress.advance();
    if (progress.with_returned_ranks(is_complete)) return mine[1];
    if (backoff.waited() <= limit) continue;
    leak(std::move(values));  // MPI may still write to them
    return {};
  }
}

}  // namespace cubist::detail
