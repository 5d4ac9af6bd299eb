// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/engine/functions.hpp"

#include "catch.hpp"

namespace cubist::test::engine_functions_test
{

TEST_CASE("the functions of maps and folds")
{
  CHECK(detail::Sum{}(2, 3) == 5);
  CHECK(detail::Larger{}(2, 3) == 3);
  CHECK(detail::Larger{}(3, 2) == 3);
  CHECK(detail::Smaller{}(2, 3) == 2);
  CHECK(detail::Smaller{}(3, 2) == 2);
  CHECK(detail::Itself{}(7, 8, 2.5) == 2.5);
  int x = 2;
  detail::Add{}(x, 3);
  CHECK(x == 5);
  CHECK(detail::Scaled<int>{4}(3) == 12);
  CHECK(detail::Scaled<int>{4}(7, 8, 3) == 12);
  CHECK(detail::AddScaled<int>{4}(3, 5) == 23);
}

TEMPLATE_TEST_CASE("the larger and the smaller of a number and a NaN is the NaN", "", float, double)
{
  using T = TestType;
  const T nan = std::numeric_limits<T>::quiet_NaN(), infinity = std::numeric_limits<T>::infinity();
  for (const T x : {T{3}, -infinity, infinity, nan, -nan})
  {
    CHECK(std::isnan(detail::Larger{}(x, nan)));
    CHECK(std::isnan(detail::Larger{}(nan, x)));
    CHECK(std::isnan(detail::Smaller{}(x, -nan)));
    CHECK(std::isnan(detail::Smaller{}(-nan, x)));
  }
  CHECK(detail::Larger{}(-infinity, T{-3}) == -3);
  CHECK(detail::Smaller{}(T{3}, infinity) == 3);
}

}  // namespace cubist::test::engine_functions_test
