// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "cubist/core/philox.hpp"

#include "catch.hpp"

namespace cubist::test::core_philox_test
{

struct KnownAnswer
{
  std::uint64_t index, stream, seed;
  std::uint32_t words[4];
};

// Random123's kat_vectors for "philox4x32 10". Their words are index, stream and seed, low word
// first.
constexpr KnownAnswer known_answers[] = {
    {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {~0ULL, ~0ULL, ~0ULL, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {0x85a308d3243f6a88,
     0x0370734413198a2e,
     0x299f31d0a4093822,
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

static double exact_double(std::uint32_t a, std::uint32_t b)
{
  return std::ldexp(static_cast<double>(a), -32) + std::ldexp(static_cast<double>(b >> 11), -53);
}

static float exact_float(std::uint32_t a) { return std::ldexp(static_cast<float>(a >> 8), -24); }

TEST_CASE("the numbers are those of Philox4x32-10")
{
  for (const auto& k : known_answers)
  {
    const Philox random{k.seed, k.stream};
    const auto* w = k.words;
    CHECK(random.bits(k.index) == (std::uint64_t{w[0]} << 32 | w[1]));
    CHECK(random.uniform<double>(k.index) == exact_double(w[0], w[1]));
    CHECK(random.uniform<float>(k.index) == exact_float(w[0]));
    CHECK(random.uniform<std::complex<double>>(k.index) ==
          std::complex{exact_double(w[0], w[1]), exact_double(w[2], w[3])});
    CHECK(random.uniform<std::complex<float>>(k.index) ==
          std::complex{exact_float(w[0]), exact_float(w[2])});
  }
}

TEMPLATE_TEST_CASE("uniform numbers fill the interval from 0 to 1 evenly", "", float, double)
{
  constexpr std::uint64_t n = 100000;
  const Philox random{42, 7};
  double sum = 0;
  double squares = 0;
  std::vector<int> counts(10);
  for (std::uint64_t i = 0; i < n; ++i)
  {
    const auto u = static_cast<double>(random.uniform<TestType>(i));
    if (u < 0 || u >= 1) FAIL("got " << u << " at index " << i);
    sum += u;
    squares += u * u;
    ++counts[static_cast<std::size_t>(10 * u)];
  }
  // Five standard deviations, which are 1/sqrt(12 n) for the mean and sqrt(4/45/n) for the mean
  // square.
  CHECK(std::abs(sum / n - 0.5) < 5 / std::sqrt(12.0 * n));
  CHECK(std::abs(squares / n - 1.0 / 3) < 5 * std::sqrt(4.0 / 45 / n));
  for (const int c : counts) CHECK(std::abs(c - n / 10.0) < 5 * std::sqrt(0.09 * n));
}

TEST_CASE("symmetric numbers fill the interval from -bound to bound")
{
  constexpr std::uint64_t n = 20000;
  const Philox random{1, 2};
  double sum = 0;
  double least = 1;
  double most = -1;
  for (std::uint64_t i = 0; i < n; ++i)
  {
    const double x = random.symmetric<double>(i, 0.25);
    if (x != (2 * random.uniform<double>(i) - 1) * 0.25) FAIL("index " << i);
    sum += x;
    least = std::min(least, x);
    most = std::max(most, x);
  }
  CHECK(least >= -0.25);
  CHECK(least < -0.2499);
  CHECK(most < 0.25);
  CHECK(most > 0.2499);
  CHECK(std::abs(sum / n) < 5 * 0.5 / std::sqrt(12.0 * n));

  const auto u = random.uniform<std::complex<float>>(3);
  const auto z = random.symmetric<std::complex<float>>(3, 2.0F);
  CHECK(z == std::complex{(2 * u.real() - 1) * 2, (2 * u.imag() - 1) * 2});
}

TEMPLATE_TEST_CASE("normal numbers have the moments and tails of the distribution", "", float,
                   double)
{
  constexpr std::uint64_t n = 100'000;
  const Philox random{42, 7};
  double sum = 0;
  double squares = 0;
  double fourths = 0;
  std::vector<int> beyond(5);
  for (std::uint64_t i = 0; i < n; ++i)
  {
    const auto z = static_cast<double>(random.normal<TestType>(i, 1));
    sum += z;
    squares += z * z;
    fourths += z * z * z * z;
    for (std::size_t a = 0; a < beyond.size(); ++a)
      if (std::abs(z) > static_cast<double>(a)) ++beyond[a];
  }
  // Five standard deviations, as the variances of z, z^2 and z^4 are 1, 2 and 96.
  CHECK(std::abs(sum / n) < 5 / std::sqrt(n));
  CHECK(std::abs(squares / n - 1) < 5 * std::sqrt(2.0 / n));
  CHECK(std::abs(fourths / n - 3) < 5 * std::sqrt(96.0 / n));
  for (std::size_t a = 0; a < beyond.size(); ++a)
  {
    CAPTURE(a);
    const double p = std::erfc(static_cast<double>(a) / std::sqrt(2.0));
    CHECK(std::abs(beyond[a] - p * n) < 5 * std::sqrt(p * n) + 1e-9);
  }
}

TEST_CASE("normal numbers have a deviation, and are rounded from double")
{
  const Philox random{42, 7};
  double products = 0;
  constexpr std::uint64_t n = 10'000;
  for (std::uint64_t i = 0; i < n; ++i)
  {
    const double z = random.normal<double>(i, 1);
    if (random.normal<double>(i, 0.02) != z * 0.02) FAIL("index " << i);
    if (random.normal<float>(i, 1) != static_cast<float>(z)) FAIL("index " << i);
    if (random.normal<bfloat16>(i, bfloat16{1.0F}) != bfloat16{z}) FAIL("index " << i);
    const auto complex = random.normal<std::complex<double>>(i, 2);
    if (complex.real() != 2 * z) FAIL("index " << i);
    products += complex.real() * complex.imag() / 4;
  }
  CHECK(std::abs(products / n) < 5 / std::sqrt(n));
}

TEST_CASE("normal numbers do not change from release to release")
{
  const Philox random{42, 7};
  CHECK(random.normal<double>(0, 1) == -0x1.cfd21008e6644p-1);
  CHECK(random.normal<double>(1, 1) == -0x1.fa45348637a5cp+0);
  CHECK(random.normal<float>(2, 0.02F) == -0x1.88f37ap-8F);
  CHECK(random.normal<std::complex<double>>(std::uint64_t{1} << 40, 1) ==
        std::complex{0x1.74de37f62ca99p+0, -0x1.e1454f27e7fbep-3});
}

TEST_CASE("a number depends on seed, stream and index alone")
{
  const Philox random{5, 9};
  std::vector<std::uint64_t> order(1000);
  std::iota(order.begin(), order.end(), std::uint64_t{1} << 32);
  std::vector<double> forward;
  for (const auto i : order) forward.push_back(random.uniform<double>(i));

  std::shuffle(order.begin(), order.end(), std::mt19937{3});
  const Philox again{5, 9};
  for (const auto i : order)
    REQUIRE(again.uniform<double>(i) == forward[i - (std::uint64_t{1} << 32)]);
}

TEST_CASE("a number depends on both words of seed, stream and index")
{
  constexpr std::uint64_t high = std::uint64_t{1} << 32;
  const double x = Philox{5, 9}.uniform<double>(3);
  CHECK(Philox{6, 9}.uniform<double>(3) != x);
  CHECK(Philox{5 + high, 9}.uniform<double>(3) != x);
  CHECK(Philox{5, 10}.uniform<double>(3) != x);
  CHECK(Philox{5, 9 + high}.uniform<double>(3) != x);
  CHECK(Philox{5, 9}.uniform<double>(4) != x);
  CHECK(Philox{5, 9}.uniform<double>(3 + high) != x);
}

TEMPLATE_TEST_CASE("uniform numbers of 16 bits are exact, and never 1", "", bfloat16, half)
{
  constexpr int digits = std::numeric_limits<TestType>::digits;
  const Philox random{3, 4};
  float most = 0;
  for (std::uint64_t i = 0; i < 100'000; ++i)
  {
    const float x = random.uniform<TestType>(i);
    const float places = std::ldexp(x, digits);
    if (places != std::floor(places)) FAIL("index " << i);
    most = std::max(most, x);
  }
  CHECK(most == 1 - std::ldexp(1.0F, -digits));
}

}  // namespace cubist::test::core_philox_test
