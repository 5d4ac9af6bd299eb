// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/matrix/sequence_cut.hpp"

#include "ranks.hpp"

namespace cubist::test::matrix_sequence_cut_test
{

TEST_CASE("each of two ranks has a chunk from the front of a sequence and one from the back")
{
  const auto cut = cut_sequences(1, 8, 2, {.parts = 2, .batches = 1, .quantum = 2});
  CHECK(cut.rows() == 8);
  std::vector<std::size_t> tokens;
  for (std::size_t r = 0; r < 8; ++r) tokens.push_back(cut.token(r));
  CHECK(tokens == std::vector<std::size_t>{0, 1, 6, 7, 2, 3, 4, 5});
}

TEST_CASE("every token has one row, even where sequences and chunks are uneven")
{
  for (const std::size_t sequences : {1U, 2U, 3U, 7U})
    for (const std::size_t length : {1U, 5U, 8U, 13U})
      for (const RowParts& rows :
           {RowParts{1, 3, 2}, RowParts{4, 1, 4}, RowParts{6, 1, 6}, RowParts{4, 2, 12}})
        for (std::size_t c = 2; c <= rows.parts; ++c)
        {
          if (rows.parts % c != 0) continue;
          CAPTURE(sequences, length, rows.parts, rows.batches, c);
          const auto cut = cut_sequences(sequences, length, c, rows);
          REQUIRE(cut.rows() % (rows.batches * rows.quantum) == 0);
          REQUIRE(cut.rows() == rows.parts * rows.batches * cut.rows_of_part());
          std::vector<int> rows_of(sequences * length, 0);
          for (std::size_t r = 0; r < cut.rows(); ++r)
          {
            if (!cut.is_token(r))
            {
              REQUIRE(cut.token(r) >= sequences * length);
              continue;
            }
            ++rows_of[cut.token(r)];
            REQUIRE(cut.row(cut.sequence(r), cut.position(r)) == r);
          }
          REQUIRE(std::all_of(rows_of.begin(), rows_of.end(), [](int n) { return n == 1; }));
        }
}

TEST_CASE("ranks that share sequences have equal causal work")
{
  const auto cut = cut_sequences(1, 96, 4, {.parts = 4, .batches = 1, .quantum = 4});
  std::vector<std::size_t> work(4);  // keys that queries see
  for (std::size_t r = 0; r < cut.rows(); ++r) work[r / cut.rows_of_part()] += cut.position(r) + 1;
  CHECK(work == std::vector<std::size_t>(4, work[0]));
}

TEST_CASE("ranks share sequences where there are fewer than parts of rows, or by request")
{
  const RowParts eight{.parts = 8, .batches = 1, .quantum = 8};
  CHECK(choose_cut(1, 1024, eight, 0).parts == 8);
  CHECK(choose_cut(2, 1024, eight, 0).parts == 4);
  CHECK(choose_cut(3, 1024, eight, 0).parts == 8);  // 3 · 128 rows on each rank, not 2 · 256
  CHECK(choose_cut(7, 1024, eight, 0).parts == 8);
  CHECK_FALSE(choose_cut(8, 1024, eight, 0).is_cut());
  CHECK_FALSE(choose_cut(9, 1024, eight, 0).is_cut());
  CHECK_FALSE(choose_cut(1, 1, eight, 0).is_cut());  // one token has no parts
  CHECK(choose_cut(9, 1024, eight, 2).parts == 2);
  CHECK_FALSE(choose_cut(1, 1024, eight, 1).is_cut());
  const RowParts two_batches{.parts = 4, .batches = 2, .quantum = 4};
  CHECK(choose_cut(2, 1024, two_batches, 0).parts == 4);
  CHECK(choose_cut(4, 1024, two_batches, 0).parts == 2);

  const auto message =
      message_of<ArgumentError>([&] { static_cast<void>(choose_cut(1, 9, eight, 3)); });
  CHECK(mentions(message, "got 3 ranks", "8 parts", "use a divisor"));
}

}  // namespace cubist::test::matrix_sequence_cut_test
