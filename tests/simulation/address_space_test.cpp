// SPDX-License-Identifier: BSD-3-Clause
#include <array>
#include <limits>

#include "cubist/simulation/address_space.hpp"

#include "catch.hpp"

namespace cubist::test::simulation_address_space_test
{

using cubist::ArgumentError;
using cubist::detail::SimulatedAddresses;

TEST_CASE("buffers of a rank do not overlap, and no object is among them")
{
  const auto& addresses = SimulatedAddresses::get();
  std::size_t next = 0;
  const auto* a = static_cast<std::byte*>(addresses.take(100, next));
  const auto* b = static_cast<std::byte*>(addresses.take(1, next));
  const auto* c = static_cast<std::byte*>(addresses.take(64, next));
  CHECK(b - a >= 100);
  CHECK(c - b >= 1);
  for (const void* p : {a, b, c}) CHECK(SimulatedAddresses::contains(p));
  const std::array<int, 4> host{};
  CHECK_FALSE(SimulatedAddresses::contains(host.data()));
  CHECK_FALSE(SimulatedAddresses::contains(nullptr));
}

TEST_CASE("the first address follows the last one")
{
  const auto& addresses = SimulatedAddresses::get();
  constexpr std::size_t much = std::size_t{1} << 33;
  std::size_t next = 0;
  const void* first = addresses.take(much, next);
  bool again = false;
  for (int i = 0; i < (1 << 13) && !again; ++i)
  {
    const void* p = addresses.take(much, next);
    REQUIRE(SimulatedAddresses::contains(p));
    again = p == first;
  }
  CHECK(again);
  CHECK_THROWS_AS(addresses.take(std::numeric_limits<std::size_t>::max(), next), ArgumentError);
}

}  // namespace cubist::test::simulation_address_space_test
