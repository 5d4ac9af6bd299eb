// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/machine/rate_table.hpp"

#include "catch.hpp"

namespace cubist::test::machine_rate_table_test
{

static RateTable table() { return {{64, 1024}, {64, 1024}, {16, 256}, {1, 2, 3, 4, 5, 6, 7, 8}}; }

TEST_CASE("a table has the rates of its own shapes")
{
  CHECK(table().rate({.m = 64, .n = 64, .k = 16}) == Approx(1));
  CHECK(table().rate({.m = 64, .n = 64, .k = 256}) == Approx(2));
  CHECK(table().rate({.m = 64, .n = 1024, .k = 16}) == Approx(3));
  CHECK(table().rate({.m = 1024, .n = 1024, .k = 256}) == Approx(8));
}

TEST_CASE("rates are interpolated in the logarithm of each size")
{
  CHECK(table().rate({.m = 64, .n = 64, .k = 64}) == Approx(1.5));
  CHECK(table().rate({.m = 256, .n = 64, .k = 16}) == Approx(3));
  CHECK(table().rate({.m = 256, .n = 256, .k = 64}) == Approx(4.5));
}

TEST_CASE("outside the grid the rate is that of its border")
{
  CHECK(table().rate({.m = 1, .n = 1, .k = 1}) == Approx(1));
  CHECK(table().rate({.m = 99'999, .n = 99'999, .k = 99'999}) == Approx(8));
  CHECK(RateTable::constant(7).rate({.m = 3, .n = 5, .k = 9}) == Approx(7));
}

TEST_CASE("the time of a product is its operations by the rate")
{
  CHECK(RateTable::constant(10).seconds({.m = 2, .n = 3, .k = 5}, 1) == Approx(6));
  CHECK(RateTable::constant(10).seconds({.m = 0, .n = 3, .k = 5}, 1) == 0);
}

TEST_CASE("with the rate of large products, elements are also read and written")
{
  const auto peak = RateTable::peak(10);
  CHECK(touched_elements({.m = 2, .n = 3, .k = 5}) == 2 * 10 + 15 + 2 * 6);
  CHECK(peak.seconds({.m = 2, .n = 3, .k = 5}, 0.5) == Approx(6 + 47 * 0.5));
  CHECK(peak.seconds({.m = 0, .n = 3, .k = 5}, 0.5) == 0);
  CHECK(peak.largest() == 10);
  CHECK(table().largest() == 8);
}

TEST_CASE("a table whose times would be unknown is refused")
{
  CHECK_NOTHROW(require_valid(table()));
  auto descending = table();
  descending.m = {1024, 64};
  auto missing = table();
  missing.rates.pop_back();
  auto zero = table();
  zero.rates[3] = 0;
  auto empty = table();
  empty.k.clear();
  for (const auto& bad : {descending, missing, zero, empty})
    CHECK_THROWS_AS(require_valid(bad), ArgumentError);
}

}  // namespace cubist::test::machine_rate_table_test
