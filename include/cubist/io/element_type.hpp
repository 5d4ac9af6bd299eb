// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The element types of files, and their conversion to scalars. Files and the machine are
// little-endian.

#include <array>
#include <bit>
#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string_view>

#include "cubist/core/error.hpp"
#include "cubist/core/scalar.hpp"

namespace cubist::CUBIST_ABI
{

static_assert(std::endian::native == std::endian::little,
              "elements are read without swapping bytes");

enum class ElementType : std::uint8_t
{
  boolean,      ///< 1 byte, 0 or 1
  u8,           ///< 8 bits, unsigned
  i8,           ///< 8 bits, signed
  f8_e4m3,      ///< 8 bits: 4 of exponent, 3 of fraction
  f8_e5m2,      ///< 8 bits: 5 of exponent, 2 of fraction
  f8_e8m0,      ///< 8 bits of exponent: a power of two
  f8_e4m3fnuz,  ///< f8_e4m3 without infinities and a negative zero
  f8_e5m2fnuz,  ///< f8_e5m2 without infinities and a negative zero
  u16,          ///< 16 bits, unsigned
  i16,          ///< 16 bits, signed
  f16,          ///< IEEE half
  bf16,         ///< bfloat16
  u32,          ///< 32 bits, unsigned
  i32,          ///< 32 bits, signed
  f32,          ///< float
  u64,          ///< 64 bits, unsigned
  i64,          ///< 64 bits, signed
  f64,          ///< double
  c64,          ///< complex of float
  c128          ///< complex of double
};

/// The element type of a scalar, or of an integer with a fixed number of bits.
template <Element T>
[[nodiscard]] constexpr ElementType element_type()
{
  if constexpr (std::same_as<T, std::uint8_t>) return ElementType::u8;
  if constexpr (std::same_as<T, std::int8_t>) return ElementType::i8;
  if constexpr (std::same_as<T, std::uint16_t>) return ElementType::u16;
  if constexpr (std::same_as<T, std::int16_t>) return ElementType::i16;
  if constexpr (std::same_as<T, std::uint32_t>) return ElementType::u32;
  if constexpr (std::same_as<T, std::int32_t>) return ElementType::i32;
  if constexpr (std::same_as<T, std::uint64_t>) return ElementType::u64;
  if constexpr (std::same_as<T, std::int64_t>) return ElementType::i64;
  if constexpr (std::same_as<T, bfloat16>) return ElementType::bf16;
  if constexpr (std::same_as<T, half>) return ElementType::f16;
  if constexpr (std::same_as<T, float>) return ElementType::f32;
  if constexpr (std::same_as<T, double>) return ElementType::f64;
  if constexpr (std::same_as<T, std::complex<float>>) return ElementType::c64;
  if constexpr (std::same_as<T, std::complex<double>>) return ElementType::c128;
}

namespace detail
{

// In the order of ElementType.
inline constexpr std::array<const char*, 20> element_type_names{
    "BOOL",        "U8",  "I8",  "F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ",
    "F8_E5M2FNUZ", "U16", "I16", "F16",     "BF16",    "U32",     "I32",
    "F32",         "U64", "I64", "F64",     "C64",     "C128"};
inline constexpr std::array<std::size_t, 20> element_type_bytes{1, 1, 1, 1, 1, 1, 1, 1, 2, 2,
                                                                2, 2, 4, 4, 4, 8, 8, 8, 8, 16};

template <class... From, class F>
constexpr bool with_one_of(ElementType type, F f)
{
  return ((type == element_type<From>() && (f(From{}), true)) || ...);
}

/// Calls f(From{}) with the scalar From of an element type that converts to T, real to real or
/// complex to complex. Returns false for other types.
template <Scalar T, class F>
constexpr bool with_source(ElementType type, F f)
{
  if constexpr (ComplexScalar<T>)
    return with_one_of<std::complex<float>, std::complex<double>>(type, f);
  else
    return with_one_of<half, bfloat16, float, double>(type, f);
}

/// Calls f(From{}) with the integer From of an element type; a Boolean is 0 or 1. Returns false for
/// other types.
template <class F>
constexpr bool with_integer(ElementType type, F f)
{
  if (type == ElementType::boolean) type = ElementType::u8;
  return with_one_of<std::uint8_t, std::int8_t, std::uint16_t, std::int16_t, std::uint32_t,
                     std::int32_t, std::uint64_t, std::int64_t>(type, f);
}

}  // namespace detail

/// The size of one element in bytes.
[[nodiscard]] constexpr std::size_t bytes_of(ElementType type)
{
  return detail::element_type_bytes.at(static_cast<std::size_t>(type));
}

/// The name in safetensors files: "F32", "BF16".
[[nodiscard]] constexpr const char* to_string(ElementType type)
{
  return detail::element_type_names.at(static_cast<std::size_t>(type));
}

/// The type with this name in safetensors files, if there is one.
[[nodiscard]] constexpr std::optional<ElementType> element_type_named(std::string_view name)
{
  for (std::size_t i = 0; i < detail::element_type_names.size(); ++i)
    if (name == detail::element_type_names[i]) return static_cast<ElementType>(i);
  return std::nullopt;
}

/// The size of a tensor in bytes; empty if the product of its nonzero sizes overflows 63 bits.
[[nodiscard]] constexpr std::optional<std::uint64_t> bytes_of(ElementType type,
                                                              std::span<const std::uint64_t> shape)
{
  std::uint64_t left = std::numeric_limits<std::int64_t>::max() / bytes_of(type);
  std::uint64_t bytes = bytes_of(type);
  for (const std::uint64_t size : shape)
  {
    bytes *= size;
    if (size == 0) continue;
    left /= size;
    if (left == 0) return std::nullopt;
  }
  return bytes;
}

/// Whether `decode` converts elements of this type to T.
template <Scalar T>
[[nodiscard]] constexpr bool readable_as(ElementType type)
{
  return detail::with_source<T>(type, [](auto) {});
}

/// Converts elements of a file to scalars, and rounds them if T is narrower. The bytes need no
/// alignment.
/// @throws DataError for elements that do not convert to T, or if `out` has more or fewer of them
template <Scalar T>
void decode(ElementType from, std::span<const std::byte> bytes, std::span<T> out)
{
  require<DataError>(readable_as<T>(from), "got elements of ", to_string(from),
                     ", which do not convert to ", element_name<T>(), "; save them as ",
                     to_string(element_type<T>()));
  require<DataError>(
      bytes.size() / bytes_of(from) == out.size() && bytes.size() % bytes_of(from) == 0, "got ",
      bytes.size(), " bytes for ", out.size(), " elements of ", to_string(from), ", which have ",
      bytes_of(from),
      " each, so some would be missing or left over; pass exactly the bytes of the elements");
  if (from == element_type<T>())
  {
    if (!out.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
    return;
  }
  detail::with_source<T>(from, [&]<class From>(From element) {
    for (std::size_t i = 0; i < out.size(); ++i)
    {
      std::memcpy(&element, bytes.data() + i * sizeof(From), sizeof(From));
      out[i] = static_cast<T>(element);
    }
  });
}

}  // namespace cubist::CUBIST_ABI
