// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/comm/mpi/collectives/chain.hpp"

#include "../job_context.hpp"
#include "catch.hpp"

namespace cubist::test::comm_mpi_collectives_chain_test
{

using detail::MpiBlocks;
using detail::MpiChain;
using detail::MpiContext;
using detail::MpiMessages;
using detail::MpiReduction;
using detail::MpiTopology;

static std::vector<int> ranks_in_order(const MpiChain& chain, int first)
{
  std::vector<int> ranks;
  for (int r = first; r >= 0; r = chain.successor(r)) ranks.push_back(r);
  return ranks;
}

TEST_CASE("a chain has every rank once, and predecessors are the inverse of successors")
{
  for (const int size : {1, 2, 3, 6})
    for (const bool nodes : {false, true})
      for (const auto collective : {CallKind::broadcast, CallKind::reduce})
        for (int root = 0; root < size; ++root)
        {
          CAPTURE(size, nodes, to_string(collective), root);
          MpiContext context;
          context.size = size;
          std::vector<int> node_ids(static_cast<std::size_t>(size));
          for (int r = 0; r < size; ++r) node_ids[static_cast<std::size_t>(r)] = r % 2;
          if (nodes) context.topology = std::make_shared<MpiTopology>(node_ids, 0);
          const MpiChain chain{context, collective, root};

          const bool reduces = collective == CallKind::reduce;
          const auto ranks = ranks_in_order(chain, reduces ? (root + 1) % size : root);
          if (reduces) CHECK(ranks.back() == root);
          auto sorted = ranks;
          std::sort(sorted.begin(), sorted.end());
          std::vector<int> all(static_cast<std::size_t>(size));
          std::iota(all.begin(), all.end(), 0);
          REQUIRE(sorted == all);

          CHECK(chain.predecessor(ranks[0]) == -1);
          for (std::size_t i = 0; i < ranks.size(); ++i)
          {
            if (i > 0) CHECK(chain.predecessor(ranks[i]) == ranks[i - 1]);
            std::vector<int> sources(ranks.begin(), ranks.begin() + static_cast<long>(i));
            if (!sources.empty()) sources.pop_back();
            std::reverse(sources.begin(), sources.end());
            CHECK(chain.forwarded_sources(ranks[i]) == sources);
          }
        }
}

TEST_CASE("the chain of a broadcast goes node by node, that of a reduce cyclically")
{
  MpiContext context;
  context.size = 4;
  context.topology = std::make_shared<MpiTopology>(std::vector{0, 1, 0, 1}, 0);
  CHECK(ranks_in_order({context, CallKind::broadcast, 1}, 1) == std::vector{1, 3, 0, 2});
  CHECK(ranks_in_order({context, CallKind::reduce, 1}, 2) == std::vector{2, 3, 0, 1});
}

TEST_CASE("broadcast and reduce along a chain, in messages of any length")
{
  const std::size_t bound = GENERATE(16U, 48U, 1U << 20);
  const int ranks_a_node = GENERATE(0, 1, 2, 3);
  const JobContext job{bound, ranks_a_node};
  const int size = job.context.size;
  MpiMessages messages;
  MpiReduction reduction;
  reduction.begin(Call<double>{.op = ReduceOp::sum});
  int tag = 0;
  for (const std::size_t n : block_counts)
    for (int root = 0; root < size; ++root)
    {
      CAPTURE(bound, ranks_a_node, n, root);
      const bool is_root = job.context.rank == root;
      std::vector<double> x(n), sums(n);
      std::iota(x.begin(), x.end(), 1.0);
      for (std::size_t i = 0; i < n; ++i) sums[i] = x[i] * size;

      std::vector<double> out(n);
      const Call<double> broadcast = is_root ? Call<double>{CallKind::broadcast, x, {}, n, root}
                                             : Call<double>{CallKind::broadcast, {}, out, n, root};
      const MpiBlocks sent{broadcast, size};
      const MpiChain chain{job.context, CallKind::broadcast, root};
      messages.begin(job.context, ++tag, "broadcast");
      const auto to_forward = detail::start_broadcast(chain, messages, sent);
      complete_all(messages, [&](std::size_t i) {
        if (i < to_forward) detail::forward_broadcast(i, chain, messages, sent);
      });
      CHECK((is_root || out == x));

      if (ranks_a_node > 0) continue;  // a reduce has no topology
      const MpiBlocks reduced{Call<double>{CallKind::reduce, x, out, n, root}, size};
      const MpiChain reversed{job.context, CallKind::reduce, root};
      messages.begin(job.context, ++tag, "reduce");
      const auto to_combine = detail::start_reduce(reversed, messages, reduced, reduction);
      complete_all(messages, [&](std::size_t i) {
        if (i < to_combine) detail::combine_and_forward(i, reversed, messages, reduced, reduction);
      });
      CHECK((!is_root || out == sums));
    }
}

}  // namespace cubist::test::comm_mpi_collectives_chain_test
