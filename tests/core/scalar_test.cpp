// SPDX-License-Identifier: BSD-3-Clause
#include <cstddef>

#include "cubist/core/scalar.hpp"

#include "catch.hpp"

namespace cubist::test::core_scalar_test
{

TEST_CASE("there are six scalar types")
{
  STATIC_REQUIRE(Scalar<float>);
  STATIC_REQUIRE(Scalar<double>);
  STATIC_REQUIRE(Scalar<std::complex<float>>);
  STATIC_REQUIRE(Scalar<std::complex<double>>);
  STATIC_REQUIRE(Scalar<bfloat16>);
  STATIC_REQUIRE(Scalar<half>);
  STATIC_REQUIRE_FALSE(Scalar<long double>);
  STATIC_REQUIRE_FALSE(Scalar<std::complex<half>>);
  STATIC_REQUIRE_FALSE(Scalar<std::uint16_t>);
  STATIC_REQUIRE_FALSE(Scalar<int>);
  STATIC_REQUIRE_FALSE(Scalar<const float>);

  STATIC_REQUIRE(RealScalar<float>);
  STATIC_REQUIRE(RealScalar<half>);
  STATIC_REQUIRE(ShortReal<bfloat16>);
  STATIC_REQUIRE_FALSE(ShortReal<float>);
  STATIC_REQUIRE_FALSE(RealScalar<std::complex<float>>);
  STATIC_REQUIRE(ComplexScalar<std::complex<double>>);
  STATIC_REQUIRE_FALSE(ComplexScalar<double>);
}

TEST_CASE("elements are scalars and integers")
{
  STATIC_REQUIRE(Element<float>);
  STATIC_REQUIRE(Element<std::complex<double>>);
  STATIC_REQUIRE(Element<std::int8_t>);
  STATIC_REQUIRE(Element<std::uint64_t>);
  STATIC_REQUIRE_FALSE(Element<bool>);
  STATIC_REQUIRE_FALSE(Element<long double>);
  STATIC_REQUIRE_FALSE(Element<float*>);
  STATIC_REQUIRE_FALSE(Element<std::byte>);
}

TEST_CASE("Real is the real type of a scalar")
{
  STATIC_REQUIRE(std::same_as<Real<float>, float>);
  STATIC_REQUIRE(std::same_as<Real<double>, double>);
  STATIC_REQUIRE(std::same_as<Real<std::complex<float>>, float>);
  STATIC_REQUIRE(std::same_as<Real<std::complex<double>>, double>);
  STATIC_REQUIRE(std::same_as<Real<bfloat16>, bfloat16>);
}

TEST_CASE("Accumulator is float for 16-bit elements")
{
  STATIC_REQUIRE(std::same_as<Accumulator<bfloat16>, float>);
  STATIC_REQUIRE(std::same_as<Accumulator<half>, float>);
  STATIC_REQUIRE(std::same_as<Accumulator<double>, double>);
  STATIC_REQUIRE(std::same_as<Accumulator<std::complex<float>>, std::complex<float>>);
  STATIC_REQUIRE(std::same_as<Accumulator<int>, int>);
}

TEST_CASE("elements have names")
{
  CHECK(element_name<float>() == "float");
  CHECK(element_name<double>() == "double");
  CHECK(element_name<std::complex<float>>() == "complex<float>");
  CHECK(element_name<std::complex<double>>() == "complex<double>");
  CHECK(element_name<bfloat16>() == "bfloat16");
  CHECK(element_name<half>() == "half");
  CHECK(element_name<std::int8_t>() == "int8");
  CHECK(element_name<std::uint8_t>() == "uint8");
  CHECK(element_name<std::int32_t>() == "int32");
  CHECK(element_name<std::int64_t>() == "int64");
  CHECK(element_name<std::uint64_t>() == "uint64");
}

}  // namespace cubist::test::core_scalar_test
