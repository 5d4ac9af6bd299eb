// SPDX-License-Identifier: BSD-3-Clause
#include <map>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "cubist/dataset/shuffle.hpp"

#include "catch.hpp"

namespace cubist::test::dataset_shuffle_test
{

using Numbers = std::vector<std::uint64_t>;

static Numbers all(const Shuffle& shuffle)
{
  Numbers numbers(shuffle.count());
  for (std::uint64_t i = 0; i < numbers.size(); ++i) numbers[i] = shuffle(i);
  return numbers;
}

TEST_CASE("a shuffle contains each number once")
{
  CHECK(Shuffle{0, 1}.count() == 0);
  for (const std::uint64_t count : {1U, 2U, 3U, 4U, 5U, 10U, 16U, 17U, 1797U, 65537U})
    for (const std::uint64_t epoch : {0U, 1U})
    {
      if (count > 10000 && epoch > 0) continue;
      CAPTURE(count, epoch);
      Numbers numbers = all({count, 7, epoch});
      if (count > 10) CHECK_FALSE(std::is_sorted(numbers.begin(), numbers.end()));
      std::sort(numbers.begin(), numbers.end());
      Numbers wanted(count);
      std::iota(wanted.begin(), wanted.end(), std::uint64_t{0});
      CHECK(numbers == wanted);
    }
}

TEST_CASE("a shuffle depends on the seed, the epoch, the draw and the count")
{
  const auto order = all({50, 1, 2});
  CHECK(order == all({50, 1, 2}));
  CHECK(order != all({50, 2, 2}));
  CHECK(order != all({50, 1, 3}));
  CHECK(order != all({50, 1, 2, Draw::held_out}));
  Numbers longer = all({51, 1, 2});
  longer.resize(50);
  CHECK(order != longer);
  CHECK_THROWS_AS(Shuffle(50, 1, std::uint64_t{1} << 40), ArgumentError);
}

TEST_CASE("a shuffle does not change from machine to machine or release to release")
{
  CHECK(all({10, 42}) == Numbers{1, 7, 8, 0, 9, 4, 6, 5, 2, 3});
  CHECK(all({7, 42, 3}) == Numbers{3, 2, 4, 1, 5, 6, 0});
  const Shuffle large{(std::uint64_t{1} << 40) + 7, 42, 5};
  CHECK(Numbers{large(0), large(1), large(large.count() - 1)} ==
        Numbers{1001716233240, 169610015833, 966112431810});
}

/// Pearson's statistic of counts that are expected to be equal, in standard deviations from its
/// mean.
static double chi_squared(const std::vector<int>& counts)
{
  const double cells = static_cast<double>(counts.size());
  const double expected = std::accumulate(counts.begin(), counts.end(), 0.0) / cells;
  double sum = 0;
  for (const int c : counts) sum += (c - expected) * (c - expected) / expected;
  return (sum - (cells - 1)) / std::sqrt(2 * (cells - 1));
}

TEST_CASE("each order of a few numbers is equally frequent")
{
  for (const auto& [count, orders] : {std::pair{2U, 2U}, {3U, 6U}, {4U, 24U}})
  {
    std::map<Numbers, int> frequency;
    for (std::uint64_t epoch = 0; epoch < 2400; ++epoch) ++frequency[all({count, 1, epoch})];
    std::vector<int> counts;
    for (const auto& order : frequency) counts.push_back(order.second);
    CAPTURE(count);
    CHECK(counts.size() == orders);
    CHECK(chi_squared(counts) < 5);
  }
}

TEST_CASE("each number is equally frequent at each position, and after each other number")
{
  for (const std::size_t n : {5U, 10U})
  {
    std::vector<int> at(n * n);
    std::vector<int> after(n * n);
    for (std::uint64_t epoch = 0; epoch < 15000 / n; ++epoch)
    {
      const auto order = all({n, 3, epoch});
      for (std::size_t i = 0; i < n; ++i) ++at[i * n + order[i]];
      for (std::size_t i = 1; i < n; ++i) ++after[order[i - 1] * n + order[i]];
    }
    std::vector<int> others;  // no number follows itself
    for (std::size_t i = 0; i < n * n; ++i)
      if (i % (n + 1) != 0) others.push_back(after[i]);
    CHECK(chi_squared(at) < 5);
    CHECK(chi_squared(others) < 5);
  }
}

TEST_CASE("successive numbers of a long shuffle are any distance apart")
{
  const Shuffle shuffle{100003, 9};
  std::vector<int> distances(64);
  for (std::uint64_t i = 1; i < 10000; ++i)
  {
    const std::uint64_t d = (shuffle(i) + shuffle.count() - shuffle(i - 1)) % shuffle.count();
    ++distances[d * distances.size() / shuffle.count()];
  }
  CHECK(chi_squared(distances) < 5);
}

TEST_CASE("numbers of a shuffle of a trillion are below the count, spread and distinct")
{
  for (const std::uint64_t count :
       {std::uint64_t{1} << 40, (std::uint64_t{1} << 40) + 7, (std::uint64_t{1} << 62) - 1})
  {
    const Shuffle shuffle{count, 1, 2};
    std::set<std::uint64_t> numbers;
    std::vector<int> parts(16);
    constexpr std::uint64_t each = 1000;
    for (std::uint64_t i = 0; i < each; ++i)
      for (const std::uint64_t at : {i, count - 1 - i})
      {
        const std::uint64_t x = shuffle(at);
        if (x >= count) FAIL(x << " at " << at);
        numbers.insert(x);
        ++parts[x / (count / 16 + 1)];
      }
    CHECK(numbers.size() == 2 * each);
    CHECK(chi_squared(parts) < 5);
  }
}

}  // namespace cubist::test::dataset_shuffle_test
