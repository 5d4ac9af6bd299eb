// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/dataset/token_batches.hpp"

#include "folder.hpp"
#include "ranks.hpp"

namespace cubist::test::dataset_token_batches_test
{

/// A file of the tokens 0, 1, 2, ….
class CountingFile
{
 public:
  explicit CountingFile(std::size_t count)
  {
    std::string bytes;
    for (std::size_t i = 0; i < count; ++i)
      bytes += {static_cast<char>(i % 256), static_cast<char>(i / 256)};
    write_contents(folder_ / "x.bin", bytes);
  }
  [[nodiscard]] TokenFile file() const { return TokenFile{folder_ / "x.bin"}; }

 private:
  Folder folder_;
};

TEST_CASE("a file of one window is a batch")
{
  const CountingFile text{4};
  const TokenBatches data{text.file(), {.sequences = 1, .length = 4}};
  for (const std::uint64_t b : {0U, 1U, 7U}) CHECK(data.batch(b) == std::vector<int>{0, 1, 2, 3});
  const auto message = message_of<ArgumentError>([&] { TokenBatches(text.file(), {2, 4}); });
  CHECK(mentions(message, "got batches of 2 of the 1 windows of", "x.bin", "or more data"));
}

TEST_CASE("an epoch predicts each token of whole windows once")
{
  for (const std::size_t count : {41U, 42U, 49U, 50U})  // 5 windows, and 6
    for (const std::size_t sequences : {1U, 2U, 5U})
    {
      const CountingFile text{count};
      const TokenBatches data{text.file(), {.sequences = sequences, .length = 9, .seed = 1}};
      CAPTURE(count, sequences);
      REQUIRE(data.windows() == (count - 1) / 8);
      CHECK((data.sequences() == sequences && data.length() == 9));
      CHECK(data.batches_per_epoch() == (data.windows() + sequences - 1) / sequences);
      // Takes as many batches as it needs to end with an epoch.
      std::vector<std::size_t> predicted(8 * data.windows() + 1);
      for (std::uint64_t b = 0; b < data.windows(); ++b)
      {
        CHECK(data.epoch_of(b) == b * sequences / data.windows());
        const auto ids = data.batch(b);
        REQUIRE(ids.size() == sequences * 9);
        for (std::size_t i = 0; i < ids.size(); ++i)
        {
          if (i % 9 == 0) continue;
          CHECK(ids[i] == ids[i - 1] + 1);
          ++predicted[static_cast<std::size_t>(ids[i])];
        }
      }
      CHECK(predicted[0] == 0);
      CHECK(std::count(predicted.begin() + 1, predicted.end(), sequences) ==
            static_cast<std::ptrdiff_t>(predicted.size() - 1));
    }
}

TEST_CASE("epochs and seeds have their own orders, and a batch read again is the same")
{
  const CountingFile text{1000};
  const TokenBatchOptions options{.sequences = 3, .length = 4, .seed = 1};
  const TokenBatches data{text.file(), options};
  const auto first = data.batch(0);
  const auto late = data.batch(12345);
  CHECK(first != data.batch(data.windows() / 3));  // the second epoch begins
  CHECK(first != TokenBatches{text.file(), {.sequences = 3, .length = 4, .seed = 2}}.batch(0));
  CHECK(data.batch(0) == first);
  CHECK(TokenBatches{text.file(), options}.batch(12345) == late);
}

TEST_CASE("sequences have at least two tokens, and no more than the file")
{
  const CountingFile text{4};
  CHECK(mentions(message_of<DataError>([&] {
                   TokenBatches(text.file(), {1, 5});
                 }),
                 "x.bin, whose 4 tokens do not fill a sequence of 5", "use shorter sequences"));
  for (const std::size_t length : {0U, 1U})
    CHECK(mentions(message_of<ArgumentError>([&] {
                     TokenBatches(text.file(), {1, length});
                   }),
                   "got sequences of", "use at least 2"));
  CHECK(TokenBatches{text.file(), {1, 2}}.windows() == 3);
}

TEST_CASE("ranks that share batches read the same")
{
  const CountingFile text{500};
  const TokenBatches data{text.file(), {.sequences = 7, .length = 5, .seed = 3}};
  const auto ranks = on_ranks<Threads>(4, [&](auto&) {
    std::vector<std::vector<int>> batches;
    for (std::uint64_t b = 0; b < 50; ++b) batches.push_back(data.batch(b));
    return batches;
  });
  for (const auto& rank : ranks) CHECK(rank == ranks[0]);
}

}  // namespace cubist::test::dataset_token_batches_test
