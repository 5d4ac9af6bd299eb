// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// What the calls of one MPI communicator share: its ranks, tags and nodes, and the translation of
// MPI's error codes.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <mpi.h>

#include "cubist/comm/mpi/transport/shared_barrier.hpp"
#include "cubist/comm/mpi/transport/tags.hpp"
#include "cubist/comm/mpi/transport/topology.hpp"
#include "cubist/core/error.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Throws the error of an MPI call, unless `code` is MPI_SUCCESS.
/// @throws CommunicationError with MPI's text; CollectiveMismatch for a message that is longer than
/// its receive buffer
inline void mpi_check(int code, const char* function, std::string_view during)
{
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "unknown error";
  int length = 0;
  MPI_Error_string(code, text, &length);
  const auto message =
      std::string{during} + " failed in " + function + " (" + text +
      "), so its data is incomplete; let all ranks make the same calls with the same sizes, and "
      "check the network if they do";
  int error_class = code;
  MPI_Error_class(code, &error_class);
  if (error_class == MPI_ERR_TRUNCATE) throw CollectiveMismatch{message};
  throw CommunicationError{message};
}

struct MpiContext
{
  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0;
  int size = 1;
  /// The longest message in bytes, a multiple of every element's size.
  std::size_t max_message_bytes = 0;
  MpiTags tags{};
  /// The communicator whose ranks error messages name; without it, they name the ranks of `comm`.
  MPI_Comm job = MPI_COMM_NULL;
  /// Whether errors must name the ranks that have not reached a barrier, which MPI_Ibarrier does
  /// not report.
  bool names_missing_ranks = false;
  /// The nodes of the ranks, if there are several nodes.
  std::shared_ptr<const MpiTopology> topology{};
  /// The barrier of the communicator, if all of its ranks share memory.
  MpiSharedBarrier* shared_barrier = nullptr;
  /// The number of the communicator in its launch, the same on all of its ranks.
  std::uint64_t id = 0;
};

/// The rank `steps` after this one, cyclically.
/// @pre -context.size <= steps <= context.size
[[nodiscard]] inline int neighbour(const MpiContext& context, int steps)
{
  return (context.rank + steps + context.size) % context.size;
}

/// Translates ranks of `context.comm` to ranks of the job.
[[nodiscard]] inline std::vector<int> job_ranks(const MpiContext& context, std::vector<int> ranks)
{
  if (context.job == MPI_COMM_NULL || ranks.empty()) return ranks;
  MPI_Group here = MPI_GROUP_NULL;
  MPI_Group all = MPI_GROUP_NULL;
  MPI_Comm_group(context.comm, &here);
  MPI_Comm_group(context.job, &all);
  std::vector<int> translated(ranks.size());
  MPI_Group_translate_ranks(here, static_cast<int>(ranks.size()), ranks.data(), all,
                            translated.data());
  MPI_Group_free(&here);
  MPI_Group_free(&all);
  return translated;
}

}  // namespace cubist::CUBIST_ABI::detail
