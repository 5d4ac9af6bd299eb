// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "cubist/comm/mpi/chain.hpp"

#include "catch.hpp"

using namespace cubist;
using detail::MpiChain;
using detail::MpiContext;
using detail::MpiTopology;

namespace
{

/// The ranks of a chain from its first one on.
std::vector<int> in_order(const MpiChain& chain, int first)
{
  std::vector<int> ranks;
  for (int r = first; r >= 0; r = chain.after(r)) ranks.push_back(r);
  return ranks;
}

}  // namespace

TEST_CASE("a chain leads from its first rank through all others, and back the same way")
{
  for (const int size : {1, 2, 3, 6})
    for (const bool nodes : {false, true})
      for (const auto collective : {Collective::broadcast, Collective::reduce})
        for (int root = 0; root < size; ++root)
        {
          CAPTURE(size, nodes, to_string(collective), root);
          MpiContext place;
          place.size = size;
          std::vector<int> of_ranks(static_cast<std::size_t>(size));
          for (int r = 0; r < size; ++r) of_ranks[static_cast<std::size_t>(r)] = r % 2;
          if (nodes) place.nodes = std::make_shared<MpiTopology>(of_ranks, 0);
          const MpiChain chain{place, collective, root};

          const bool reduces = collective == Collective::reduce;
          const auto ranks = in_order(chain, reduces ? (root + 1) % size : root);
          if (reduces) CHECK(ranks.back() == root);
          auto sorted = ranks;
          std::sort(sorted.begin(), sorted.end());
          std::vector<int> all(static_cast<std::size_t>(size));
          std::iota(all.begin(), all.end(), 0);
          REQUIRE(sorted == all);

          CHECK(chain.before(ranks[0]) == -1);
          for (std::size_t i = 0; i < ranks.size(); ++i)
          {
            if (i > 0) CHECK(chain.before(ranks[i]) == ranks[i - 1]);
            std::vector<int> behind(ranks.begin(), ranks.begin() + static_cast<long>(i));
            if (!behind.empty()) behind.pop_back();
            std::reverse(behind.begin(), behind.end());
            CHECK(chain.behind(ranks[i]) == behind);
          }
        }
}

TEST_CASE("a broadcast goes node by node, a reduction around")
{
  MpiContext place;
  place.size = 4;
  place.nodes = std::make_shared<MpiTopology>(std::vector{0, 1, 0, 1}, 0);
  CHECK(in_order({place, Collective::broadcast, 1}, 1) == std::vector{1, 3, 0, 2});
  CHECK(in_order({place, Collective::reduce, 1}, 2) == std::vector{2, 3, 0, 1});
}
