// SPDX-License-Identifier: BSD-3-Clause
#include <array>
#include <cstdint>
#include <span>

#include "cubist/dist/numbers.hpp"
#include "cubist/engine/host/engine.hpp"

#include "catch.hpp"

namespace
{
/// Its memory passes for that of a device.
class FarEngine : public cubist::HostEngine
{
};
}  // namespace

template <>
inline constexpr bool cubist::in_host_memory<FarEngine> = false;

using namespace cubist;

TEST_CASE("numbers that a communicator carries come back", "")
{
  std::array<std::uint64_t, 3> numbers{1, 2, 3};
  const std::span<std::uint64_t> all{numbers};
  const std::uint64_t* where = nullptr;
  const auto carry = [&](std::span<std::uint64_t> there) {
    REQUIRE(there.size() == 3);
    where = there.data();
    for (auto& x : there) x *= 10;
  };
  SECTION("from the host's memory, where they are")
  {
    carry_numbers(HostEngine{}, all, carry);
    CHECK(where == numbers.data());
  }
  SECTION("from a device's, by a copy there and back")
  {
    carry_numbers(FarEngine{}, all, carry);
    CHECK(where != numbers.data());
  }
  CHECK(numbers == std::array<std::uint64_t, 3>{10, 20, 30});
}
