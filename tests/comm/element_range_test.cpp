// SPDX-License-Identifier: BSD-3-Clause
#include <array>
#include <vector>

#include "cubist/comm/element_range.hpp"

#include "catch.hpp"

namespace cubist::test::comm_element_range_test
{

TEST_CASE("buffers are contiguous ranges of elements")
{
  STATIC_REQUIRE(ElementRange<std::vector<float>>);
  STATIC_REQUIRE(ElementRange<const std::vector<float>>);
  STATIC_REQUIRE(ElementRange<std::span<const int>>);
  STATIC_REQUIRE(ElementRange<std::array<double, 3>>);
  STATIC_REQUIRE(ElementRange<int[3]>);
  STATIC_REQUIRE_FALSE(ElementRange<std::vector<bool>>);
  STATIC_REQUIRE_FALSE(ElementRange<std::vector<std::string>>);
  STATIC_REQUIRE_FALSE(ElementRange<int>);

  STATIC_REQUIRE(SendReceive<std::vector<float>, std::span<float>>);
  STATIC_REQUIRE(SendReceive<std::span<const float>, std::vector<float>>);
  STATIC_REQUIRE_FALSE(SendReceive<std::vector<float>, std::vector<double>>);
  STATIC_REQUIRE_FALSE(SendReceive<std::vector<float>, std::span<const float>>);
  STATIC_REQUIRE_FALSE(SendReceive<std::vector<float>, const std::vector<float>>);
}

}  // namespace cubist::test::comm_element_range_test
