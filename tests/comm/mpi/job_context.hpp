// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// For tests of the layer below communicators: a context of all processes, and their numbers.

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <boost/mpi/communicator.hpp>
#include <mpi.h>

#include "cubist/comm/mpi/shutdown.hpp"
#include "cubist/comm/mpi/transport/context.hpp"
#include "cubist/comm/mpi/transport/messages.hpp"

namespace cubist::test
{

[[nodiscard]] inline int processes() { return boost::mpi::communicator{}.size(); }
[[nodiscard]] inline int process() { return boost::mpi::communicator{}.rank(); }

/// What this MPI says about an error; Open MPI includes the error's name.
[[nodiscard]] inline std::string text_of_error(int code)
{
  std::string text(MPI_MAX_ERROR_STRING, '\0');
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  text.resize(static_cast<std::size_t>(length));
  return text;
}

/// Duplicates MPI_COMM_WORLD, with errors returned. The duplicate is never freed: between nodes,
/// failure notifications may arrive after a test has ended, and a new communicator with the same
/// number would receive them.
[[nodiscard]] inline boost::mpi::communicator duplicate_world()
{
  boost::mpi::communicator all{MPI_COMM_WORLD, boost::mpi::comm_duplicate};
  MPI_Comm_set_errhandler(all, MPI_ERRORS_RETURN);
  detail::leak_communicator(all);
  return all;
}

/// The context of all processes, with its own communicator.
struct JobContext
{
  /// @param ranks_a_node  how many consecutive ranks the topology puts on each node; 0: no topology
  explicit JobContext(std::size_t max_message_bytes, int ranks_a_node = 0)
      : context{comm, comm.rank(), comm.size(), max_message_bytes}
  {
    if (ranks_a_node == 0) return;
    std::vector<int> node_ids;
    for (int r = 0; r < context.size; ++r) node_ids.push_back(r / ranks_a_node);
    context.topology = std::make_shared<detail::MpiTopology>(node_ids, context.rank);
  }

  boost::mpi::communicator comm = duplicate_world();
  detail::MpiContext context;
};

/// Advances messages until all are complete; calls on_complete(i) for each.
template <class F>
void complete_all(detail::MpiMessages& messages, F on_complete)
{
  while (!messages.advance(on_complete))
  {
  }
}
inline void complete_all(detail::MpiMessages& messages)
{
  complete_all(messages, [](std::size_t) {});
}

/// Sizes of blocks that need no message, one message, and several messages, the last of which is
/// not full.
inline constexpr std::size_t block_counts[] = {0, 1, 3, 130};

}  // namespace cubist::test
