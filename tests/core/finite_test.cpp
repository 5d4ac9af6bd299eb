// SPDX-License-Identifier: BSD-3-Clause
#include <limits>

#include "cubist/core/finite.hpp"

#include "catch.hpp"

namespace core_finite_test
{

using namespace cubist;

TEMPLATE_TEST_CASE("numbers, infinities and NaNs are told apart by their bits", "", float, double)
{
  using Limits = std::numeric_limits<TestType>;
  for (const TestType x : {TestType{0}, TestType{-1}, Limits::max(), Limits::lowest(),
                           Limits::denorm_min(), -Limits::min()})
    CHECK((is_finite(x) && !is_nan(x)));
  for (const TestType x : {Limits::infinity(), -Limits::infinity()})
    CHECK((!is_finite(x) && !is_nan(x)));
  for (const TestType x : {Limits::quiet_NaN(), -Limits::quiet_NaN(), Limits::signaling_NaN()})
    CHECK((!is_finite(x) && is_nan(x)));
}

}  // namespace core_finite_test
