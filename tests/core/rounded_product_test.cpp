// SPDX-License-Identifier: BSD-3-Clause
#include <limits>

#include "cubist/core/rounded_product.hpp"

#include "catch.hpp"

using cubist::detail::rounded_product;

TEST_CASE("a rounded product is the nearest number to the product")
{
  CHECK(rounded_product(3.0F, 7.0F) == 21.0F);
  // (1 + e) (1 + e) = 1 + 2 e + e^2, where e^2 is less than half a unit in the last place.
  constexpr float e = std::numeric_limits<float>::epsilon();
  CHECK(rounded_product(1.0F + e, 1.0F + e) == 1.0F + 2.0F * e);
  constexpr double d = std::numeric_limits<double>::epsilon();
  CHECK(rounded_product(1.0 + d, 1.0 + d) == 1.0 + 2.0 * d);
}
