// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/comm/mpi/collectives/exchange.hpp"

#include "../job_context.hpp"
#include "catch.hpp"

namespace cubist::test::comm_mpi_collectives_exchange_test
{

using detail::MpiBlocks;
using detail::MpiMessages;

TEST_CASE("a direct exchange gives every rank its pieces, in messages of any length")
{
  const std::size_t bound = GENERATE(16U, 48U, 1U << 20);
  const JobContext job{bound};
  const int size = job.context.size;
  const int rank = job.context.rank;
  const auto ranks = static_cast<std::size_t>(size);
  MpiMessages messages;
  int tag = 0;
  const auto run = [&](auto algorithm, const Call<int>& call) {
    messages.begin(job.context, ++tag, "exchange");
    algorithm(messages, MpiBlocks{call, size});
    complete_all(messages);
  };
  for (const std::size_t n : block_counts)
  {
    CAPTURE(bound, n);
    const std::vector<int> mine(n, rank);
    std::vector<int> expected(n * ranks);
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = static_cast<int>(i / n);

    std::vector<int> all(n * ranks);
    run(&detail::gather_everywhere, {CallKind::all_gather, mine, all, n});
    CHECK(all == expected);

    std::vector<int> received(n * ranks);
    run(&detail::exchange_pieces, {CallKind::all_to_all, all, received, n});
    CHECK(received == std::vector<int>(n * ranks, rank));

    for (const int root : {0, size - 1})
    {
      std::vector<int> gathered(rank == root ? n * ranks : 0);
      run([&](auto& m, const auto& blocks) { detail::gather_to(root, m, blocks); },
          {CallKind::gather, mine, gathered, n, root});
      if (rank == root) CHECK(gathered == expected);
      std::vector<int> scattered(n);
      run([&](auto& m, const auto& blocks) { detail::scatter_from(root, m, blocks); },
          {CallKind::scatter, gathered, scattered, n, root});
      CHECK(scattered == mine);
    }
  }
}

}  // namespace cubist::test::comm_mpi_collectives_exchange_test
