// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>

#include "cubist/core/vector_math.hpp"

#include "catch.hpp"

namespace cubist::test::core_vector_math_test
{

template <class T>
constexpr T infinity = std::numeric_limits<T>::infinity();
template <class T>
constexpr T nan_of = std::numeric_limits<T>::quiet_NaN();

TEMPLATE_TEST_CASE("pick selects one of two numbers", "", float, double)
{
  using T = TestType;
  CHECK(detail::pick(true, T{2}, infinity<T>) == 2);
  CHECK(detail::pick(false, nan_of<T>, T{-3}) == -3);
  CHECK(std::isnan(detail::pick(true, nan_of<T>, T{-3})));
  CHECK(std::signbit(detail::pick(true, -T{}, T{})));
}

TEMPLATE_TEST_CASE("polynomial evaluates its coefficients from the lowest", "", float, double)
{
  using T = TestType;
  CHECK(detail::polynomial(T{2}, T{3}, T{-2}, T{5}) == 19);
}

/// |got - wanted| in units in the last place of a number near 1.
template <class T>
double error(T got, long double wanted)
{
  return static_cast<double>(std::abs(got / wanted - 1) / std::numeric_limits<T>::epsilon());
}

/// The largest error of f(x) from x = `from` to 0, where f(x) is a normal number.
template <class T, class F, class G>
double worst(T from, F f, G wanted)
{
  double most = 0;
  const int steps = 200'003;
  for (int i = 0; i < steps; ++i)
  {
    const T x = from * (static_cast<T>(i) / static_cast<T>(steps));
    most = std::max(most, error(f(x), wanted(static_cast<long double>(x))));
  }
  return most;
}

TEMPLATE_TEST_CASE("exponentials are exact to 2 units in the last place", "", float, double)
{
  using T = TestType;
  constexpr T least = detail::VectorMath<T>::least_exponent;
  CHECK(worst(
            least, [](T x) { return detail::exp_of_negative(x); },
            [](long double x) { return std::exp(x); }) < 2);
  CHECK(worst(
            T{-1}, [](T x) { return detail::expm1_of_negative(x - T(1e-3)); },
            [](long double x) { return std::expm1(static_cast<long double>(T(x) - T(1e-3))); }) <
        2);
  CHECK(worst(
            least, [](T x) { return detail::expm1_of_negative(x - T(1e-3)); },
            [](long double x) { return std::expm1(static_cast<long double>(T(x) - T(1e-3))); }) <
        2);
}

TEMPLATE_TEST_CASE("exp_of_negative takes the tail of its exponent", "", float, double)
{
  using T = TestType;
  // The sum would round to x, and e^x would lose the tail.
  const T x = -40;
  const T tail = std::numeric_limits<T>::epsilon() * 15;
  CHECK(x - tail == x);
  CHECK(error(detail::exp_of_negative(x, tail), std::exp(-40.0L - tail)) < 2);
  CHECK(error(detail::exp_of_negative(x), std::exp(-40.0L - tail)) > 14);
}

TEMPLATE_TEST_CASE("exponentials at the ends of their ranges", "", float, double)
{
  using T = TestType;
  constexpr T least = detail::VectorMath<T>::least_exponent;
  CHECK(detail::exp_of_negative(T{}) == 1);
  CHECK(detail::exp_of_negative(-T{}) == 1);
  CHECK(detail::exp_of_negative(least) >= std::numeric_limits<T>::min());
  CHECK(detail::exp_of_negative(std::nextafter(least, -infinity<T>)) == 0);
  CHECK(detail::exp_of_negative(-std::numeric_limits<T>::max()) == 0);
  CHECK(detail::exp_of_negative(-infinity<T>) == 0);
  CHECK(std::isnan(detail::exp_of_negative(nan_of<T>)));
  CHECK(detail::expm1_of_negative(T{}) == 0);
  CHECK(detail::expm1_of_negative(least) == -1);
  CHECK(std::isnan(detail::expm1_of_negative(nan_of<T>)));
  const T tiny = -std::numeric_limits<T>::min();
  CHECK(detail::expm1_of_negative(tiny) == tiny);
}

TEMPLATE_TEST_CASE("normal_tail is the tail of the normal distribution", "", float, double)
{
  using T = TestType;
  // From 0 to where the gaussian falls below the normal numbers. The polynomial's rounding errors
  // are largest at the far end.
  const T end = sizeof(T) == 4 ? T(13.2) : T(37.6);
  const auto tail = [](T x) {
    const auto q = detail::normal_tail(x);
    return q.ratio * (q.gaussian / std::numeric_limits<T>::min());
  };
  const auto wanted = [](long double x) {
    return std::erfc(std::abs(x) / std::sqrt(2.0L)) / 2 / std::numeric_limits<T>::min();
  };
  CHECK(worst(T{-4}, tail, wanted) < (sizeof(T) == 4 ? 5 : 6));
  CHECK(worst(-end, tail, wanted) < (sizeof(T) == 4 ? 6 : 14));
  CHECK(tail(T{1.5}) == tail(T{-1.5}));

  const auto middle = detail::normal_tail(T{});
  CHECK(middle.gaussian == 1);
  CHECK(middle.ratio == T{0.5});
  for (const T x : {infinity<T>, -infinity<T>, std::numeric_limits<T>::max(), T{1000}})
  {
    const auto far = detail::normal_tail(x);
    CHECK(far.a == detail::VectorMath<T>::tail_end);
    CHECK(far.gaussian == 0);
    CHECK(far.ratio > 0);
  }
  CHECK(std::isnan(detail::normal_tail(nan_of<T>).gaussian));
}

TEMPLATE_TEST_CASE("square roots are exact to 2 units in the last place", "", float, double)
{
  using T = TestType;
  using Limits = std::numeric_limits<T>;
  double most = 0;
  for (T x = Limits::min(); x < Limits::max() / 3; x *= T(1.0137))
    most = std::max(most, error(detail::square_root(x), std::sqrt(static_cast<long double>(x))));
  for (T x = 1; x < 4; x += T(0x1p-16))
    most = std::max(most, error(detail::square_root(x), std::sqrt(static_cast<long double>(x))));
  for (T x = Limits::denorm_min(); x < Limits::min(); x *= 2)
    most = std::max(most, error(detail::square_root(x), std::sqrt(static_cast<long double>(x))));
  CHECK(most < 2);
  CHECK(detail::square_root(Limits::max()) == std::sqrt(Limits::max()));
  CHECK(detail::square_root(T{}) == 0);
  CHECK(detail::square_root(infinity<T>) == infinity<T>);
  CHECK(std::isnan(detail::square_root(nan_of<T>)));
}

}  // namespace cubist::test::core_vector_math_test
