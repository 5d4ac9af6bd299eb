// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Where MPI's messages travel, what the ranks there are called, and MPI's errors.

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <mpi.h>

#include "cubist/comm/mpi/shared_barrier.hpp"
#include "cubist/comm/mpi/tags.hpp"
#include "cubist/comm/mpi/topology.hpp"
#include "cubist/core/error.hpp"

namespace cubist::detail
{

/// @throws CommunicationError with MPI's text unless `code` is MPI_SUCCESS; CollectiveMismatch for
/// a message that is longer than its room
inline void mpi_check(int code, const char* function, std::string_view during)
{
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "unknown error";
  int length = 0;
  MPI_Error_string(code, text, &length);
  const auto message =
      std::string{during} + " failed in " + function + " (" + text +
      "), so its data is incomplete; let all ranks make the same calls with the same sizes, and "
      "look at the network if they do";
  int of_class = code;
  MPI_Error_class(code, &of_class);
  if (of_class == MPI_ERR_TRUNCATE) throw CollectiveMismatch{message};
  throw CommunicationError{message};
}

/// Where messages travel.
struct MpiContext
{
  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0;
  int size = 1;
  /// The longest message in bytes, a multiple of every element's size.
  std::size_t message_bytes = 0;
  MpiTags tags{};
  /// Of all ranks, which messages to people name; left out, they name those of `comm`.
  MPI_Comm world = MPI_COMM_NULL;
  /// Whether it must be known for whom a barrier waits, which MPI's does not tell.
  bool tells_whom = false;
  /// Those of `comm`, if it has several.
  std::shared_ptr<const MpiTopology> nodes{};
  /// If it has one node, whose ranks share memory; their communicator's.
  MpiSharedBarrier* meetings = nullptr;
};

/// The ranks of a place, as the world numbers them.
[[nodiscard]] inline std::vector<int> in_world(const MpiContext& place, std::vector<int> ranks)
{
  if (place.world == MPI_COMM_NULL || ranks.empty()) return ranks;
  MPI_Group here = MPI_GROUP_NULL;
  MPI_Group all = MPI_GROUP_NULL;
  MPI_Comm_group(place.comm, &here);
  MPI_Comm_group(place.world, &all);
  std::vector<int> translated(ranks.size());
  MPI_Group_translate_ranks(here, static_cast<int>(ranks.size()), ranks.data(), all,
                            translated.data());
  MPI_Group_free(&here);
  MPI_Group_free(&all);
  return translated;
}

}  // namespace cubist::detail
