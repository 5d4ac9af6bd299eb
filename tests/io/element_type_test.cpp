// SPDX-License-Identifier: BSD-3-Clause
#include <cmath>
#include <vector>

#include "cubist/io/element_type.hpp"

#include "catch.hpp"

namespace cubist::test::io_element_type_test
{

TEST_CASE("every element type has a size, and is found by its name")
{
  for (int i = 0; i <= static_cast<int>(ElementType::c128); ++i)
  {
    const auto type = static_cast<ElementType>(i);
    CHECK(element_type_named(to_string(type)) == type);
  }
  CHECK(to_string(ElementType::boolean) == std::string{"BOOL"});
  CHECK(to_string(ElementType::f8_e5m2) == std::string{"F8_E5M2"});
  CHECK(to_string(ElementType::c128) == std::string{"C128"});
  CHECK(!element_type_named("F128"));
  CHECK(!element_type_named(""));
  CHECK(bytes_of(ElementType::boolean) == 1);
  CHECK(bytes_of(ElementType::bf16) == 2);
  CHECK(bytes_of(element_type<float>()) == sizeof(float));
  CHECK(bytes_of(element_type<double>()) == sizeof(double));
  CHECK(bytes_of(element_type<std::complex<float>>()) == sizeof(std::complex<float>));
  CHECK(bytes_of(element_type<std::complex<double>>()) == sizeof(std::complex<double>));
}

TEST_CASE("the size of a tensor is known unless it overflows")
{
  using Sizes = std::vector<std::uint64_t>;
  const std::uint64_t huge = std::uint64_t{1} << 62;
  CHECK(bytes_of(ElementType::f64, Sizes{}) == 8U);
  CHECK(bytes_of(ElementType::f16, Sizes{3, 5}) == 30U);
  CHECK(bytes_of(ElementType::f16, Sizes{3, 0, 5}) == 0U);
  CHECK(bytes_of(ElementType::u8, Sizes{2 * huge - 1}) == 2 * huge - 1);
  CHECK(!bytes_of(ElementType::u8, Sizes{2 * huge}));
  CHECK(!bytes_of(ElementType::u16, Sizes{huge}));
  CHECK(bytes_of(ElementType::u16, Sizes{huge - 1}) == 2 * huge - 2);
  CHECK(!bytes_of(ElementType::u8, Sizes{huge, huge}));
  CHECK(!bytes_of(ElementType::u8, Sizes{0, huge, huge}));
  CHECK(!bytes_of(ElementType::u8, Sizes{huge, huge, 0}));
  CHECK(!bytes_of(ElementType::c128, Sizes{std::numeric_limits<std::uint64_t>::max()}));
}

TEST_CASE("real types convert to real scalars, complex types to complex scalars")
{
  for (int i = 0; i <= static_cast<int>(ElementType::c128); ++i)
  {
    const auto type = static_cast<ElementType>(i);
    const bool real = type == ElementType::f16 || type == ElementType::bf16 ||
                      type == ElementType::f32 || type == ElementType::f64;
    const bool complex = type == ElementType::c64 || type == ElementType::c128;
    CHECK(readable_as<float>(type) == real);
    CHECK(readable_as<std::complex<double>>(type) == complex);
    std::vector<float> out(1);
    const std::vector<std::byte> bytes(bytes_of(type));
    if (real)
      CHECK_NOTHROW(decode<float>(type, bytes, out));
    else
      CHECK_THROWS_AS(decode<float>(type, bytes, out), DataError);
  }
}

TEST_CASE("the number of bytes must match the number of elements")
{
  const std::array<std::byte, 9> bytes{};
  const std::span<const std::byte> all{bytes};
  std::vector<double> out(2);
  CHECK_NOTHROW(decode<double>(ElementType::f32, all.first(8), out));
  CHECK_THROWS_WITH(decode<double>(ElementType::f32, all, out),
                    Catch::Matchers::ContainsSubstring("9 bytes for 2 elements"));
  CHECK_THROWS_AS(decode<double>(ElementType::f32, all.first(7), out), DataError);
  CHECK_THROWS_AS(decode<double>(ElementType::f64, all.first(8), out), DataError);
  CHECK_NOTHROW(decode<double>(ElementType::f64, {}, {}));
}

/// Decodes elements from bytes that are not aligned.
template <class T, class From>
std::vector<T> decode_all(ElementType type, const std::vector<From>& elements)
{
  std::vector<std::byte> bytes(elements.size() * sizeof(From) + 1);
  std::memcpy(bytes.data() + 1, elements.data(), bytes.size() - 1);
  std::vector<T> out(elements.size());
  decode<T>(type, std::span<const std::byte>{bytes}.subspan(1), out);
  return out;
}

using Halfs = std::vector<std::uint16_t>;

TEST_CASE("16-bit elements keep their bits, and others are rounded once")
{
  CHECK(bytes_of(element_type<bfloat16>()) == 2);
  CHECK(element_type<half>() == ElementType::f16);
  const Halfs bits{0x3C00, 0x0001, 0xFC00, 0x7E01};
  const auto same = decode_all<half>(ElementType::f16, bits);
  for (std::size_t i = 0; i < bits.size(); ++i) CHECK(same[i].bits() == bits[i]);
  CHECK(decode_all<bfloat16>(ElementType::f16, Halfs{0x3C00})[0] == 1);
  CHECK(decode_all<half>(ElementType::bf16, Halfs{0x3F80})[0] == 1);
  CHECK(decode_all<bfloat16>(ElementType::f32, std::vector<float>{1.0F / 3})[0].bits() == 0x3EAB);
  // If it were first rounded to float, it would be a tie.
  const double above = 1 + 0x1p-8 + 0x1p-40;
  CHECK(decode_all<bfloat16>(ElementType::f64, std::vector<double>{above})[0] == 1 + 0x1p-7F);
}

TEST_CASE("all 65536 halfs are decoded to their values")
{
  Halfs halfs(65536);
  for (std::size_t i = 0; i < halfs.size(); ++i) halfs[i] = static_cast<std::uint16_t>(i);
  const auto single = decode_all<float>(ElementType::f16, halfs);
  const auto twice = decode_all<double>(ElementType::f16, halfs);
  int wrong = 0;
  for (const std::uint16_t h : halfs)
  {
    const int exponent = h / 1024 % 32;
    const int fraction = h % 1024;
    const double sign = h < 32768 ? 1 : -1;
    double expected =
        exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
    if (exponent == 31) expected = fraction == 0 ? INFINITY : NAN;
    for (const double got : {static_cast<double>(single[h]), twice[h]})
    {
      const bool same = std::isnan(expected) ? std::isnan(got) : got == sign * expected;
      if (!same || std::signbit(got) != (sign < 0)) ++wrong;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("halfs and bfloat16s of known bits")
{
  CHECK(
      decode_all<float>(ElementType::f16, Halfs{0x3C00, 0xC000, 0x7BFF, 0x0400, 0x0001, 0x3555}) ==
      std::vector<float>{1, -2, 65504, 0x1p-14F, 0x1p-24F, 0.333251953125F});
  CHECK(
      decode_all<float>(ElementType::bf16, Halfs{0x3F80, 0xC000, 0x7F7F, 0x0001, 0x4049, 0xFF80}) ==
      std::vector<float>{1, -2, 0x1.FEp127F, 0x1p-133F, 3.140625F, -INFINITY});
  CHECK(std::isnan(decode_all<double>(ElementType::bf16, Halfs{0x7FC0})[0]));
}

TEST_CASE("a narrower scalar rounds, a wider one is exact")
{
  CHECK(decode_all<float>(ElementType::f64, std::vector<double>{1.0 / 3, 1 + 0x1p-25, 1e300}) ==
        std::vector<float>{1.0F / 3, 1, INFINITY});
  CHECK(decode_all<double>(ElementType::f32, std::vector<float>{0.1F}) ==
        std::vector<double>{static_cast<double>(0.1F)});
  using C64 = std::complex<float>;
  using C128 = std::complex<double>;
  CHECK(decode_all<C64>(ElementType::c128, std::vector<C128>{{1.0 / 3, -2}}) ==
        std::vector<C64>{{1.0F / 3, -2}});
  CHECK(decode_all<C128>(ElementType::c64, std::vector<C64>{{0.5F, -2}}) ==
        std::vector<C128>{{0.5, -2}});
  CHECK(decode_all<C128>(ElementType::c128, std::vector<C128>{{0.1, -2}}) ==
        std::vector<C128>{{0.1, -2}});
}

TEST_CASE("elements of the scalar itself keep their bits")
{
  const auto nan = std::bit_cast<double>(0x7FF0'0000'0000'0001U);
  const auto out = decode_all<double>(ElementType::f64, std::vector<double>{nan, -0.0});
  CHECK(std::bit_cast<std::uint64_t>(out[0]) == 0x7FF0'0000'0000'0001U);
  CHECK(std::signbit(out[1]));
}

}  // namespace cubist::test::io_element_type_test
