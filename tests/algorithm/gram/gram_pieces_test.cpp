// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/algorithm/gram/gram_pieces.hpp"

#include "catch.hpp"

namespace cubist::test::algorithm_gram_gram_pieces_test
{

using cubist::detail::gram_elements;
using cubist::detail::gram_pieces;

TEST_CASE("four groups of two rows compute a block each, and half of one")
{
  const std::vector<std::size_t> rows{2, 2, 2, 2};
  const auto first = gram_pieces(rows, 0);
  REQUIRE(first.size() == 2);
  CHECK(first[0].peer == 1);
  CHECK(first[0].shape() == Shape{2, 2});
  CHECK(first[1].peer == 2);
  CHECK(first[1].shape() == Shape{2, 1});
  CHECK(first[1].theirs.offset == 0);
  const auto third = gram_pieces(rows, 2);
  REQUIRE(third.size() == 2);
  CHECK(third[0].peer == 3);
  CHECK(third[1].peer == 0);
  CHECK(third[1].shape() == Shape{1, 2});
  CHECK(third[1].mine.offset == 1);
}

TEST_CASE("every element is computed once, at one of its two places, and shared out evenly")
{
  for (const auto& rows : std::vector<std::vector<std::size_t>>{{5},
                                                                {3, 3},
                                                                {4, 4, 4},
                                                                {3, 3, 3, 2},
                                                                {2, 2, 2, 2, 2},
                                                                {1, 1, 1, 0, 0, 0},
                                                                {0, 0},
                                                                {4, 4, 4, 4, 4, 4},
                                                                {3, 3, 3, 3, 3, 3, 1}})
  {
    CAPTURE(rows);
    const auto n = std::accumulate(rows.begin(), rows.end(), std::size_t{0});
    std::vector<std::size_t> first(rows.size());
    std::exclusive_scan(rows.begin(), rows.end(), first.begin(), std::size_t{0});
    std::vector<int> times(n * n);
    for (std::size_t i = 0; i < rows.size(); ++i)
    {
      std::size_t size = 0;
      for (const auto& p : gram_pieces(rows, i))
      {
        size += p.shape().size();
        REQUIRE(p.mine.offset + p.mine.valid <= rows[i]);
        REQUIRE(p.theirs.offset + p.theirs.valid <= rows[p.peer]);
        for (std::size_t a = 0; a < p.mine.valid; ++a)
          for (std::size_t b = 0; b < p.theirs.valid; ++b)
          {
            const std::size_t row = first[i] + p.mine.offset + a;
            const std::size_t col = first[p.peer] + p.theirs.offset + b;
            ++times[row * n + col];
            ++times[col * n + row];
          }
      }
      // If all groups have the same number of rows, this is half of the group's rows, up to half a
      // row.
      if (n == rows[0] * rows.size()) CHECK(2 * size <= rows[i] * (n - rows[i]) + rows[i]);
    }
    for (std::size_t i = 0; i < rows.size(); ++i)
      for (std::size_t row = first[i]; row < first[i] + rows[i]; ++row)
        for (std::size_t col = 0; col < n; ++col)
          REQUIRE(times[row * n + col] == (col >= first[i] && col < first[i] + rows[i] ? 0 : 1));
  }
}

TEST_CASE("ranks send as many elements as the formula says")
{
  // One group of 4 ranks sums 6 * 7 / 2 elements.
  CHECK(gram_elements({6}, 100, 4) == 2 * 3 * 21);
  // Two groups send the first one's rows and half of the second's, then the mirrored block.
  CHECK(gram_elements({4, 4}, 10, 1) == (4 + 2) * 10 + 16);
  // Three groups send the rows of each once.
  CHECK(gram_elements({4, 4, 4}, 10, 1) == 12 * 10 + 3 * 16);
  CHECK(gram_elements({4, 4, 4}, 10, 5) == 12 * 10 + 4 * 12 * 13 + 5 * 3 * 16);
}

TEST_CASE("no mesh of up to 64 ranks sends more than with gemm")
{
  // With gemm, all rows of X reach each group, whose ranks sum all of the group's rows of C.
  const auto by_gemm = [](std::size_t n, std::size_t k, std::size_t r, std::size_t s) {
    return (r - 1) * n * k + 2 * (s - 1) * n * n;
  };
  for (std::size_t p = 2; p <= 64; ++p)
    for (std::size_t r = 1; r <= p; ++r)
      if (p % r == 0)
        for (const std::size_t k : {64 * r, 64 * r + 17, 256 * r})
        {
          CAPTURE(p, r, k);
          const std::size_t n = 64 * r;
          CHECK(gram_elements(std::vector<std::size_t>(r, 64), k, p / r) <=
                by_gemm(n, k, r, p / r));
        }
}

}  // namespace cubist::test::algorithm_gram_gram_pieces_test
