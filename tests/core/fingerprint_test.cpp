// SPDX-License-Identifier: BSD-3-Clause
#include <cstring>
#include <set>

#include "cubist/core/fingerprint.hpp"

#include "catch.hpp"
#include "matrices.hpp"

namespace cubist::test::core_fingerprint_test
{

TEST_CASE("mix is splitmix64")
{
  // The first numbers that Vigna's reference of splitmix64 gives for the seed 1234567.
  CHECK(mix(1234567, 0) == 6457827717110365317U);
  CHECK(mix(1234567, 1) == 3203168211198807973U);
  CHECK(mix(1234567, 2) == 9817491932198370423U);
}

template <class T>
MatrixView<const T> view(const GlobalMatrix<T>& a)
{
  return {a.data.data(), a.shape};
}

TEMPLATE_TEST_CASE("A fingerprint does not depend on how a matrix is cut", "", float, double,
                   std::complex<float>, std::complex<double>)
{
  const auto a = random_matrix<TestType, Fractions>({13, 7}, 1);
  const std::uint64_t whole = fingerprint(view(a));
  for (std::size_t rows : {1U, 4U, 13U, 20U})
    for (std::size_t cols : {1U, 3U, 7U})
    {
      std::uint64_t sum = 0;
      for (std::size_t i = 0; i < 13; i += rows)
        for (std::size_t j = 0; j < 7; j += cols)
          sum += fingerprint(view(a).block(i, j, {std::min(rows, 13 - i), std::min(cols, 7 - j)}),
                             i, j, 7);
      CHECK(sum == whole);
    }
  CHECK(fingerprint(MatrixView<const TestType>{}, 3, 4, 7) == 0);
}

/// The matrix with bit `bit` of element n flipped.
template <class T>
GlobalMatrix<T> flip(GlobalMatrix<T> a, std::size_t n, std::size_t bit)
{
  unsigned char bytes[sizeof(T)];
  std::memcpy(bytes, &a.data[n], sizeof(T));
  bytes[bit / 8] = static_cast<unsigned char>(bytes[bit / 8] ^ (1U << bit % 8));
  std::memcpy(&a.data[n], bytes, sizeof(T));
  return a;
}

TEMPLATE_TEST_CASE("Each flipped bit gives another fingerprint", "", float, double,
                   std::complex<float>, std::complex<double>)
{
  const auto a = random_matrix<TestType, Fractions>({3, 5}, 2);
  std::set<std::uint64_t> seen{fingerprint(view(a))};
  for (std::size_t n = 0; n < a.data.size(); ++n)
    for (std::size_t bit = 0; bit < 8 * sizeof(TestType); ++bit)
      seen.insert(fingerprint(view(flip(a, n, bit))));
  CHECK(seen.size() == 1 + 15 * 8 * sizeof(TestType));
}

TEMPLATE_TEST_CASE("Swapped elements give another fingerprint", "", float, std::complex<double>)
{
  const auto a = random_matrix<TestType>({4, 5}, 3);
  const std::uint64_t whole = fingerprint(view(a));
  int swaps = 0;
  for (std::size_t m = 0; m < 20; ++m)
    for (std::size_t n = 0; n < m; ++n)
    {
      auto b = a;
      std::swap(b.data[m], b.data[n]);
      swaps += a.data[m] != a.data[n];
      CHECK((fingerprint(view(b)) == whole) == (a.data[m] == a.data[n]));
    }
  CHECK(swaps > 50);
  CHECK(fingerprint(view(transposed(a))) != whole);
}

TEST_CASE("Real and imaginary parts have their own indices")
{
  using C = std::complex<double>;
  const GlobalMatrix<C> a{{1, 1}, [](std::size_t, std::size_t) { return C{1, 2}; }};
  const GlobalMatrix<C> b{{1, 1}, [](std::size_t, std::size_t) { return C{2, 1}; }};
  CHECK(fingerprint(view(a)) != fingerprint(view(b)));
  const GlobalMatrix<double> parts{
      {1, 2}, [](std::size_t, std::size_t j) { return static_cast<double>(j + 1); }};
  CHECK(fingerprint(view(a)) == fingerprint(view(parts)));
}

TEMPLATE_TEST_CASE("A fingerprint depends on the number and the sign of zeros", "", float, double)
{
  const auto zeros = [](std::size_t n) { return GlobalMatrix<TestType>{{n, 1}}; };
  std::set<std::uint64_t> seen;
  for (std::size_t n = 0; n < 100; ++n) seen.insert(fingerprint(view(zeros(n))));
  CHECK(seen.size() == 100);
  auto minus = zeros(3);
  minus.data[1] = -TestType{};
  CHECK(fingerprint(view(minus)) != fingerprint(view(zeros(3))));
}

TEST_CASE("NaNs are compared by their bits")
{
  const auto of = [](std::uint64_t bits) {
    const double x = std::bit_cast<double>(bits);
    return fingerprint(MatrixView<const double>{&x, {1, 1}});
  };
  CHECK(of(0x7ff8000000000000) == of(0x7ff8000000000000));
  CHECK(of(0x7ff8000000000000) != of(0x7ff8000000000001));
  CHECK(of(0x7ff8000000000000) != of(0xfff8000000000000));
}

TEST_CASE("A 16-bit element counts as the float of its value")
{
  const std::vector<float> x{1, -0.0F, 0.0F, -2.5F, std::numeric_limits<float>::infinity(), 0.375F};
  const std::vector<bfloat16> brief(x.begin(), x.end());
  const std::vector<half> halves(x.begin(), x.end());
  const auto of = [](const auto& v) { return fingerprint(MatrixView{v.data(), {2, 3}}); };
  CHECK(of(brief) == of(x));
  CHECK(of(halves) == of(x));
}

}  // namespace cubist::test::core_fingerprint_test
