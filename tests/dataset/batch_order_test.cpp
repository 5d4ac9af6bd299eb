// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/dataset/batch_order.hpp"

#include "ranks.hpp"

namespace cubist::test::dataset_batch_order_test
{

TEST_CASE("batches cut the shuffled epochs, one after the other, into equal parts")
{
  for (const std::uint64_t count : {1U, 5U, 12U, 100U})
    for (const std::size_t batch : {1U, 3U, 5U, 12U, 64U, 100U})
    {
      if (batch > count) continue;
      CAPTURE(count, batch);
      const BatchOrder order{count, batch, 3, "samples"};
      CHECK((order.count() == count && order.batch_size() == batch));
      std::vector<std::uint64_t> wanted;
      for (std::uint64_t epoch = 0; epoch < 4; ++epoch)
        for (std::uint64_t i = 0; i < count; ++i) wanted.push_back(Shuffle{count, 3, epoch}(i));
      std::vector<std::uint64_t> got;
      for (std::uint64_t b = 0; got.size() + batch <= wanted.size(); ++b)
      {
        CHECK(order.epoch_of(b) == got.size() / count);
        const auto samples = order(b);
        CHECK(samples.size() == batch);
        got.insert(got.end(), samples.begin(), samples.end());
      }
      wanted.resize(got.size());
      CHECK(got == wanted);
    }
}

TEST_CASE("after the batches of an epoch every sample was visited, and no batch earlier")
{
  for (const std::size_t batch : {1U, 4U, 5U, 10U})
  {
    const BatchOrder order{10, batch, 1, "samples"};
    std::vector<bool> visited(10);
    std::uint64_t batches = 0;
    while (std::count(visited.begin(), visited.end(), true) < 10)
      for (const auto s : order(batches++)) visited[s] = true;
    CAPTURE(batch);
    CHECK(order.batches_per_epoch() == batches);
  }
}

TEST_CASE("a batch does not depend on those read before")
{
  const BatchOrder order{100, 7, 5, "samples"};
  const auto late = order(1000);
  CHECK(late != order(999));
  CHECK(order(1000) == late);
  CHECK(BatchOrder{100, 7, 5, "the same"}(1000) == late);
  CHECK(BatchOrder{100, 7, 6, "another seed"}(1000) != late);
}

TEST_CASE("a batch is neither empty nor more than an epoch, and its number is bounded")
{
  const auto message = [](std::uint64_t count, std::size_t batch) {
    return message_of<ArgumentError>([&] { BatchOrder(count, batch, 1, "rows of x.csv"); });
  };
  CHECK(mentions(message(10, 11), "got batches of 11 of the 10 rows of x.csv", "twice",
                 "use batches of 1 to 10"));
  CHECK(mentions(message(10, 0), "got batches of 0", "empty"));
  CHECK(mentions(message(0, 1), "got batches of 1 of the 0 rows", "or more data"));
  const BatchOrder order{10, 4, 1, "rows"};
  CHECK(mentions(message_of<ArgumentError>(
                     [&] { (void)order(std::numeric_limits<std::uint64_t>::max() / 2); }),
                 "beyond the last batch", "count batches from 0"));
  CHECK_THROWS_AS(order(std::uint64_t{1} << 60), ArgumentError);
  CHECK_NOTHROW(order(std::uint64_t{1} << 41));
}

}  // namespace cubist::test::dataset_batch_order_test
