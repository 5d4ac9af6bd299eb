// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The end of a launch: its ranks agree on how it ended. After a failure, its communicators outlive
// it.

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <boost/mpi/communicator.hpp>
#include <mpi.h>

#include "cubist/comm/backoff.hpp"
#include "cubist/comm/mpi/failure.hpp"
#include "cubist/comm/mpi/progress.hpp"
#include "cubist/comm/mpi/returned_ranks.hpp"
#include "cubist/comm/mpi/transport/context.hpp"

namespace cubist::CUBIST_ABI::detail
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

/// How a launch has ended, the same on all ranks.
struct LaunchEnd
{
  int minimum = 0;         // the minimum of the values of all ranks
  bool is_broken = false;  // whether MpiFailures::is_broken() holds on any rank
};

/// Frees the communicators that this rank retired, or keeps them after a failure.
inline void end_communicators(MpiProgress& progress, bool is_broken)
{
  progress.with_returned_ranks([&](MpiReturnedRanks& returned, MpiFailures& failures) {
    auto retired = returned.end();
    if (!is_broken) return;
    failures.mark_broken();
    for (auto& comm : retired) leak_communicator(std::move(comm));
  });
}

/// Agrees with the other ranks, at the end of their bodies, on how the launch ended, and until then
/// answers those that still wait for this one. Returns nothing if a rank does not call it within
/// `limit`.
[[nodiscard]] inline std::optional<LaunchEnd>
agree_on_end(MpiProgress& progress, int value, std::chrono::steady_clock::duration limit)
{
  struct Values
  {
    std::array<int, 2> mine;  // the value, and 0 if this rank is broken, else 1
    std::array<int, 2> minimum;
  };
  auto values = std::make_unique<Values>();
  MPI_Request request = MPI_REQUEST_NULL;
  bool is_started = false;
  // After a failure, ranks get its notification instead of answers. Otherwise a rank takes part
  // once its questions are answered, so that no question is in flight at the end.
  const auto is_complete = [&](MpiReturnedRanks& returned, const MpiFailures& failures) {
    if (!failures.is_announced()) returned.exchange();
    if (!is_started && !returned.has_all_answers() && !failures.is_announced()) return false;
    if (!std::exchange(is_started, true))
    {
      values->mine = {value, failures.is_broken() ? 0 : 1};
      mpi_check(MPI_Iallreduce(values->mine.data(), values->minimum.data(), 2, MPI_INT, MPI_MIN,
                               progress.comm(), &request),
                "MPI_Iallreduce", "the end of a launch");
    }
    int complete = 0;
    mpi_check(MPI_Test(&request, &complete, MPI_STATUS_IGNORE), "MPI_Test", "the end of a launch");
    return complete != 0;
  };
  for (Backoff backoff;; backoff.pause())
  {
    progress.advance();
    if (progress.with_returned_ranks(is_complete))
      return LaunchEnd{values->minimum[0], values->minimum[1] == 0};
    if (backoff.waited() <= limit) continue;
    leak(std::move(values));  // MPI may still write to them
    return {};
  }
}

}  // namespace cubist::CUBIST_ABI::detail
