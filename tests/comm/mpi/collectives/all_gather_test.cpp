// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/comm/mpi/collectives/all_gather.hpp"

#include "../job_context.hpp"
#include "catch.hpp"

namespace cubist::test::comm_mpi_collectives_all_gather_test
{

using detail::MpiBlocks;
using detail::MpiMessages;
using detail::MpiTopology;

TEST_CASE("blocks that leaders forward within nodes arrive at every rank")
{
  const std::size_t bound = GENERATE(16U, 48U, 1U << 20);
  const int ranks_a_node = GENERATE(1, 2, 3);
  const JobContext job{bound, ranks_a_node};
  MpiMessages messages;
  int tag = 0;
  for (const std::size_t n : block_counts)
  {
    CAPTURE(bound, ranks_a_node, n);
    const std::vector<int> mine(n, job.context.rank);
    std::vector<int> all(n * static_cast<std::size_t>(job.context.size));
    std::vector<int> expected(all.size());
    for (std::size_t i = 0; i < all.size(); ++i) expected[i] = static_cast<int>(i / n);
    const MpiBlocks blocks{Call<int>{CallKind::all_gather, mine, all, n}, job.context.size};
    messages.begin(job.context, ++tag, "all_gather");
    const std::size_t to_forward = detail::gather_over_nodes(messages, blocks);
    complete_all(messages, [&](std::size_t i) {
      if (i < to_forward) detail::forward_in_node(i, to_forward, messages, blocks);
    });
    CHECK(all == expected);
  }
}

TEST_CASE("the sources of what leaders forward")
{
  // Nodes {0, 1} and {2, 3}: rank 0 receives the block of rank 2 for both, and rank 1 that of 3.
  const MpiTopology topology{{5, 5, 6, 6}, 0};
  CHECK(detail::forwarded_sources(topology, {1}) == std::vector{3});
  CHECK(detail::forwarded_sources(topology, {2}).empty());
}

}  // namespace cubist::test::comm_mpi_collectives_all_gather_test
