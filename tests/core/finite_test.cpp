// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/core/finite.hpp"

#include "catch.hpp"

namespace cubist::test::core_finite_test
{

TEMPLATE_TEST_CASE("numbers, infinities and NaN are told apart", "", float, double, half, bfloat16)
{
  using T = TestType;
  using Limits = std::numeric_limits<T>;
  const auto negative = [](T x) { return T{-x}; };
  for (const T x :
       {T{}, T{-1.5F}, Limits::max(), Limits::lowest(), Limits::min(), Limits::denorm_min()})
  {
    CHECK(is_finite(x));
    CHECK_FALSE(is_nan(x));
    CHECK_FALSE(is_infinite(x));
  }
  for (const T x : {Limits::infinity(), negative(Limits::infinity())})
  {
    CHECK_FALSE(is_finite(x));
    CHECK_FALSE(is_nan(x));
    CHECK(is_infinite(x));
  }
  for (const T x : {Limits::quiet_NaN(), negative(Limits::quiet_NaN())})
  {
    CHECK_FALSE(is_finite(x));
    CHECK(is_nan(x));
    CHECK_FALSE(is_infinite(x));
  }
}

TEST_CASE("a complex number is finite if both components are")
{
  using Z = std::complex<double>;
  const double infinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(is_finite(Z{1, -2}));
  CHECK_FALSE(is_finite(Z{1, infinity}));
  CHECK_FALSE(is_finite(Z{nan, 0}));
  CHECK(is_nan(Z{0, nan}));
  CHECK_FALSE(is_nan(Z{infinity, 0}));
}

}  // namespace cubist::test::core_finite_test
