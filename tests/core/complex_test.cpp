// SPDX-License-Identifier: BSD-3-Clause
#include <type_traits>
#include <vector>

#include "cubist/core/complex.hpp"

#include "catch.hpp"

namespace cubist::test::core_complex_test
{

/// The results of all operators on exact operands, as one list of numbers.
template <class Z>
std::vector<std::complex<double>> results(Z a, Z b)
{
  std::vector<Z> all{a + b, a - b, a * b, a / b, -a, conj(a), 3.0 * a, a * 3.0, a / 4.0};
  Z c = a;
  all.push_back(c += b);
  all.push_back(c -= a);
  all.push_back(c *= a);
  all.push_back(c /= b);
  all.push_back(Z{norm(a), abs(a)});
  std::vector<std::complex<double>> numbers;
  for (const Z& z : all) numbers.push_back(static_cast<std::complex<double>>(z));
  return numbers;
}

TEST_CASE("operators of Complex give what those of std::complex give")
{
  using Std = std::complex<double>;
  for (const Std a : {Std{3, 4}, Std{-5, 12}, Std{8, -6}})
    for (const Std b : {Std{2, 0}, Std{0, -4}, Std{2, 2}, Std{-4, 4}, Std{-1, -1}})
    {
      CAPTURE(a, b);
      CHECK(results<Complex<double>>(a, b) == results<Std>(a, b));
    }
  CHECK(Complex<float>{3, 5} == std::complex<float>{3, 5});
  CHECK_FALSE(Complex<float>{3, 5} == std::complex<float>{3, 4});
  CHECK_FALSE(Complex<float>{3, 5} == Complex<float>{2, 5});
}

TEST_CASE("the quotient of large and of small Complex numbers is finite")
{
  const Complex<double> large{0x1p600, -0x1p1000};
  CHECK(large / large == Complex<double>{1});
  const Complex<double> small{-0x1p-600, 0x1p-1000};
  CHECK(small / small == Complex<double>{1});
}

TEST_CASE("std::complex becomes Complex implicitly, and Complex becomes std::complex explicitly")
{
  STATIC_REQUIRE(std::convertible_to<std::complex<float>, Complex<float>>);
  STATIC_REQUIRE_FALSE(std::convertible_to<Complex<float>, std::complex<float>>);
  CHECK(static_cast<std::complex<float>>(Complex<float>{2, 3}) == std::complex<float>{2, 3});
  const auto product = std::complex<double>{0, 1} * Complex<double>{2, 3};
  STATIC_REQUIRE(std::same_as<decltype(product), const Complex<double>>);
  CHECK(product == Complex<double>{-3, 2});
  // A device's buffers hold it.
  STATIC_REQUIRE(std::is_trivially_copyable_v<Complex<float>>);
}

}  // namespace cubist::test::core_complex_test
