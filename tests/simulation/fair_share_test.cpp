// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/simulation/fair_share.hpp"

#include "catch.hpp"

namespace cubist::test::simulation_fair_share_test
{

using cubist::detail::fair_share;

static double share_of(std::vector<double> wanted) { return fair_share(wanted); }

TEST_CASE("what fits has no limit")
{
  CHECK(share_of({}) == std::numeric_limits<double>::max());
  CHECK(share_of({1}) == std::numeric_limits<double>::max());
  CHECK(share_of({0.5, 0.25, 0.25}) == std::numeric_limits<double>::max());
}

TEST_CASE("equals share equally")
{
  CHECK(share_of({1, 1}) == Approx(0.5));
  CHECK(share_of({0.4, 0.4, 0.4, 0.4}) == Approx(0.25));
}

TEST_CASE("what one does not want is shared by the others")
{
  CHECK(share_of({1, 0.2, 1}) == Approx(0.4));
  CHECK(share_of({0.9, 0.6}) == Approx(0.5));
  CHECK(share_of({0.7, 0.1, 0.25, 0.05}) == Approx(0.6));
}

TEST_CASE("the whole is used")
{
  for (const auto& wanted : {std::vector<double>{0.3, 0.9, 0.5}, {0.01, 0.02, 1, 1, 1, 0.5}})
  {
    const double share = share_of(wanted);
    double used = 0;
    for (const double w : wanted) used += std::min(w, share);
    CHECK(used == Approx(1));
  }
}

}  // namespace cubist::test::simulation_fair_share_test
