// SPDX-License-Identifier: BSD-3-Clause
#include <climits>

#include "cubist/scheme/extents.hpp"

#include "catch.hpp"

namespace cubist::test::scheme_extents_test
{

using namespace cubist::detail;

TEST_CASE("root is the largest whole root")
{
  CHECK(root(0, 2) == 0);
  CHECK(root(1, 3) == 1);
  CHECK(root(7, 3) == 1);
  CHECK(root(8, 3) == 2);
  CHECK(root(26, 3) == 2);
  CHECK(root(35, 2) == 5);
  CHECK(root(36, 2) == 6);
  CHECK(root(1000, 1) == 1000);
  CHECK(root(INT_MAX, 3) == 1290);
}

TEST_CASE("largest_divisor is the largest divisor up to a limit")
{
  for (int n = 1; n <= 100; ++n)
  {
    int largest = 0;
    for (int d = 1; d * d <= n; ++d)
      if (n % d == 0) largest = d;
    CHECK(largest_divisor(n, root(n, 2)) == largest);
    CHECK(largest_divisor(n, n) == n);
    CHECK(largest_divisor(n, INT_MAX) == n);
    CHECK(largest_divisor(n, 1) == 1);
  }
}

TEST_CASE("nearest_divisor is the divisor nearest to the requested one")
{
  for (int n = 1; n <= 30; ++n)
    for (int requested = 1; requested <= 40; ++requested)
    {
      int nearest = 1;
      for (int d = 1; d <= n; ++d)
        if (n % d == 0 && std::abs(d - requested) < std::abs(nearest - requested)) nearest = d;
      CHECK(nearest_divisor(n, requested) == nearest);
    }
  CHECK(nearest_divisor(6, INT_MAX) == 6);
}

TEST_CASE("nearest_powers are the powers around a number of ranks")
{
  CHECK(nearest_powers(6, 3) == "1 or 8 ranks");
  CHECK(nearest_powers(26, 3) == "8 or 27 ranks");
  CHECK(nearest_powers(30, 2) == "25 or 36 ranks");
}

TEST_CASE("ranks_on multiplies without overflow, and or_ranks leaves out what no world has")
{
  CHECK(ranks_on({}) == 1);
  CHECK(ranks_on({2, 3, 4}) == 24);
  CHECK(ranks_on({INT_MAX, INT_MAX, INT_MAX}) > INT_MAX);
  CHECK(or_ranks(ranks_on({3, 4})) == ", or 12 ranks");
  CHECK(or_ranks(ranks_on({INT_MAX, INT_MAX, INT_MAX})).empty());
}

TEST_CASE("extents_text has the extents that are not left out")
{
  CHECK(extents_text({{"q", 2}, {"d", 3}}) == "{.q = 2, .d = 3}");
  CHECK(extents_text({{"q", 0}, {"d", 3}}) == "{.d = 3}");
  CHECK(extents_text({{"q", 0}}) == "{}");
}

TEST_CASE("require_extents refuses negative extents and nothing else")
{
  CHECK_NOTHROW(require_extents("Some", 8, {{"q", 0}, {"d", 3}}));
  CHECK_THROWS_AS(require_extents("Some", 8, {{"q", 2}, {"d", -3}}), MeshError);
  CHECK_THROWS_WITH(require_extents("Some", 8, {{"q", 2}, {"d", -3}}),
                    Catch::Matchers::ContainsSubstring("Some got d = -3 for 8 ranks"));
}

}  // namespace cubist::test::scheme_extents_test
