// SPDX-License-Identifier: BSD-3-Clause
#include <set>

#include "cubist/core/random_stream.hpp"

#include "catch.hpp"

namespace cubist::test::core_random_stream_test
{

TEST_CASE("random numbers do not change from release to release")
{
  CHECK(stream(42, Draw::weight, 0).uniform<double>(0) == 0x1.39d5e0a6efea9p-1);
  CHECK(stream(42, Draw::bias, 1).uniform<double>(7) == 0x1.580f67dc0ad8fp-1);
  CHECK(stream(42, Draw::dropout, 2, 99).uniform<float>(1000) == 0x1.7ccb6cp-2F);
}

TEST_CASE("seed, draw, layer and step each select a different stream")
{
  constexpr std::size_t last_layer = 0xFFFF;
  constexpr std::uint64_t last_step = (std::uint64_t{1} << 40) - 1;
  std::set<double> first;
  std::size_t streams = 0;
  for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 32})
    for (const Draw draw : {Draw::weight, Draw::bias, Draw::dropout})
      for (const std::size_t layer : {std::size_t{0}, std::size_t{1}, last_layer})
        for (const std::uint64_t step : {std::uint64_t{0}, std::uint64_t{1}, last_step})
        {
          first.insert(stream(seed, draw, layer, step).uniform<double>(0));
          ++streams;
        }
  CHECK(first.size() == streams);
  CHECK_THROWS_AS(stream(0, Draw::weight, last_layer + 1), ArgumentError);
  CHECK_THROWS_AS(stream(0, Draw::dropout, 0, last_step + 1), ArgumentError);
}

}  // namespace cubist::test::core_random_stream_test
