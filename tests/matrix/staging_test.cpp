// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/engine/host/engine.hpp"
#include "cubist/matrix/staging.hpp"

#include "catch.hpp"

/// An engine whose memory is treated as that of a device.
class DeviceEngine : public cubist::HostEngine
{
};

template <>
inline constexpr bool cubist::in_host_memory<DeviceEngine> = false;

namespace cubist::test::matrix_staging_test
{

TEST_CASE("with_staging_buffer: the values that are communicated are copied back")
{
  std::array<std::uint64_t, 3> values{1, 2, 3};
  const std::span<std::uint64_t> all{values};
  const std::uint64_t* where = nullptr;
  const auto communicate = [&](std::span<std::uint64_t> staged) {
    REQUIRE(staged.size() == 3);
    where = staged.data();
    for (auto& x : staged) x *= 10;
  };
  SECTION("host memory is used in place")
  {
    with_staging_buffer(HostEngine{}, all, communicate);
    CHECK(where == values.data());
  }
  SECTION("device memory: copies to and from a buffer")
  {
    with_staging_buffer(DeviceEngine{}, all, communicate);
    CHECK(where != values.data());
  }
  CHECK(values == std::array<std::uint64_t, 3>{10, 20, 30});
}

}  // namespace cubist::test::matrix_staging_test
