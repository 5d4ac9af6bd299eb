// SPDX-License-Identifier: BSD-3-Clause
#include <cmath>
#include <cstddef>
#include <vector>

#include "cubist/core/float16.hpp"

#include "catch.hpp"

namespace cubist::test::core_float16_test
{

template <class T>
T of_bits(unsigned bits)
{
  return T::from_bits(static_cast<std::uint16_t>(bits));
}

/// The value of some bits by the definition of the format.
template <class T>
double value_of(unsigned bits)
{
  constexpr int fraction_bits = std::numeric_limits<T>::digits - 1;
  constexpr int bias = std::numeric_limits<T>::max_exponent - 1;
  const int exponent = static_cast<int>((bits & 0x7FFFU) >> fraction_bits);
  const auto fraction = static_cast<double>(bits & ((1U << fraction_bits) - 1));
  const double sign = (bits & 0x8000U) != 0 ? -1 : 1;
  if (exponent == 2 * bias + 1) return fraction == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp(std::ldexp(fraction, -fraction_bits) + 1, exponent - bias);
}

TEMPLATE_TEST_CASE("every 16-bit number converts to a float and back", "", bfloat16, half)
{
  using T = TestType;
  for (unsigned bits = 0; bits < 0x10000U; ++bits)
  {
    const auto x = of_bits<T>(bits);
    const double expected = value_of<T>(bits);
    const float wide = x;
    const bool right = std::isnan(expected)
                           ? std::isnan(wide) && std::isnan(static_cast<float>(T{wide}))
                           : double{wide} == expected && T{wide}.bits() == bits &&
                                 std::signbit(wide) == ((bits & 0x8000U) != 0) &&
                                 T{expected}.bits() == bits;
    if (!right) FAIL("bits " << bits);
  }
}

TEMPLATE_TEST_CASE("numbers between two neighbours are rounded to the nearest, ties to even", "",
                   bfloat16, half)
{
  using T = TestType;
  const unsigned infinite = std::numeric_limits<T>::infinity().bits();
  for (unsigned bits = 0; bits + 1 < infinite; ++bits)
  {
    const float below = of_bits<T>(bits);
    const float above = of_bits<T>(bits + 1);
    const float tie = below + (above - below) / 2;
    const unsigned even = bits % 2 == 0 ? bits : bits + 1;
    // Doubles next to the tie would round to the tie in float.
    const double less = std::nextafter(double{tie}, 0.0);
    const double more = std::nextafter(double{tie}, 1e300);
    const bool right = T{tie}.bits() == even && T{-tie}.bits() == (even | 0x8000U) &&
                       T{std::nextafter(tie, 0.0F)}.bits() == bits &&
                       T{std::nextafter(tie, INFINITY)}.bits() == bits + 1 &&
                       T{less}.bits() == bits && T{more}.bits() == bits + 1 &&
                       T{-more}.bits() == ((bits + 1) | 0x8000U);
    if (!right) FAIL("bits " << bits);
  }
}

/// The bits of the positive number nearest to x >= 0, ties to even, by bisection.
template <class T>
unsigned nearest(double x)
{
  const unsigned infinite = std::numeric_limits<T>::infinity().bits();
  unsigned below = 0;
  for (unsigned step = 0x8000U; step > 0; step /= 2)
    if (below + step < infinite && value_of<T>(below + step) <= x) below += step;
  const double next = below + 1 == infinite
                          ? 2 * value_of<T>(infinite - 1) - value_of<T>(infinite - 2)
                          : value_of<T>(below + 1);
  const double up = next - x;
  const double down = x - value_of<T>(below);
  return down < up || (down == up && below % 2 == 0) ? below : below + 1;
}

TEMPLATE_TEST_CASE("floats of all magnitudes are rounded to the nearest", "", bfloat16, half)
{
  using T = TestType;
  std::uint32_t bits = 12345;
  for (int i = 0; i < 100'000; ++i)
  {
    bits = bits * 1664525U + 1013904223U;
    const auto x = std::bit_cast<float>(bits & 0x7FFF'FFFFU);
    if (std::isnan(x)) continue;
    if (T{x}.bits() != nearest<T>(x)) FAIL("float " << x);
  }
}

TEMPLATE_TEST_CASE("infinities, subnormal numbers, zeros and NaNs are converted", "", bfloat16,
                   half)
{
  using T = TestType;
  using Limits = std::numeric_limits<T>;
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const float most = Limits::max();
  CHECK(T{infinity} == infinity);
  CHECK(T{-infinity} == -infinity);
  CHECK(T{std::numeric_limits<float>::max()} == infinity);
  CHECK(T{1e300} == infinity);
  CHECK(T{-1e300} == -infinity);
  CHECK(T{static_cast<double>(INFINITY)} == infinity);
  const double half_a_step = (double{most} - of_bits<T>(Limits::max().bits() - 1U)) / 2;
  CHECK(T{double{most} + half_a_step} == infinity);
  CHECK(T{std::nextafter(double{most} + half_a_step, 0.0)} == most);

  CHECK(T{static_cast<float>(Limits::denorm_min()) / 2} == 0);
  CHECK(T{0x1p-1074}.bits() == 0);
  CHECK(T{-0x1p-1074}.bits() == 0x8000U);
  CHECK(std::signbit(static_cast<float>(T{-0.0F})));
  for (const std::uint32_t nan : {0x7F80'0001U, 0xFF80'0001U, 0x7FFF'FFFFU, 0x7FC0'0000U})
  {
    const T x = std::bit_cast<float>(nan);
    CHECK(std::isnan(static_cast<float>(x)));
    CHECK((x.bits() >> 15) == (nan >> 31));
  }
  CHECK(std::isnan(static_cast<float>(T{static_cast<double>(NAN)})));
}

TEMPLATE_TEST_CASE("numeric_limits are those of the format", "", bfloat16, half)
{
  using T = TestType;
  using Limits = std::numeric_limits<T>;
  STATIC_REQUIRE(Limits::is_specialized);
  const float one_more = of_bits<T>(T{1}.bits() + 1U);
  CHECK(Limits::epsilon() == one_more - 1);
  CHECK(Limits::epsilon() == std::ldexp(1.0F, 1 - Limits::digits));
  CHECK(Limits::min() == std::ldexp(1.0F, Limits::min_exponent - 1));
  CHECK(Limits::max() == std::ldexp(2 - one_more + 1, Limits::max_exponent - 1));
  CHECK(Limits::lowest() == -Limits::max());
  CHECK(Limits::denorm_min() == std::ldexp(1.0F, Limits::min_exponent - Limits::digits));
  CHECK(std::isinf(static_cast<float>(Limits::infinity())));
  CHECK(std::isnan(static_cast<float>(Limits::quiet_NaN())));
  CHECK(std::isnan(static_cast<float>(Limits::signaling_NaN())));
}

TEST_CASE("known numbers have their bits")
{
  CHECK(bfloat16{1}.bits() == 0x3F80);
  CHECK(bfloat16{3.14159265F}.bits() == 0x4049);
  CHECK(std::numeric_limits<bfloat16>::max() == 0x1.FEp127F);
  CHECK(half{1}.bits() == 0x3C00);
  CHECK(half{3.14159265F}.bits() == 0x4248);
  CHECK(std::numeric_limits<half>::max() == 65504);
  CHECK(half{65519}.bits() == 0x7BFF);
  CHECK(half{65520}.bits() == 0x7C00);
  CHECK(half{0x1p-25F}.bits() == 0);
  CHECK(half{0x1.8p-25F}.bits() == 1);
}

TEMPLATE_TEST_CASE("arithmetic is that of float", "", bfloat16, half)
{
  using T = TestType;
  STATIC_REQUIRE(sizeof(T) == 2);
  STATIC_REQUIRE(std::is_trivially_copyable_v<T>);
  STATIC_REQUIRE(std::is_trivially_default_constructible_v<T>);
  STATIC_REQUIRE(std::is_same_v<decltype(T{} + T{}), float>);
  STATIC_REQUIRE(std::is_same_v<decltype(T{} * 2.0), double>);
  STATIC_REQUIRE(T{} == 0);
  STATIC_REQUIRE(T{2} < T{3});
  STATIC_REQUIRE(T{std::size_t{7}} == 7);
  T x{3};
  x += 2;
  CHECK(x == 5);
  x -= T{1};
  x *= 6;
  x /= 16;
  CHECK(x == 1.5F);
  CHECK(-x == -1.5F);
  const float third = 1.0F / 3;
  CHECK(T{1} / T{3} == third);
  const T sum = T{1} + 0x1p-12F;
  CHECK(sum == 1);
}

}  // namespace cubist::test::core_float16_test
