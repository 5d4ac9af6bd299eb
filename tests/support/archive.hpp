// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Serializes the results of test bodies, to send them between processes: numbers, strings, vectors,
// optionals, tuples, xtensors, and structs of such members.

#include <complex>
#include <cstddef>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "cubist/core/scalar.hpp"

namespace cubist::test
{

namespace archive
{

/// Converts to the type of any member.
struct Anything
{
  template <class T>
  operator T() const;
};

template <class T, std::size_t... I>
[[nodiscard]] constexpr bool takes(std::index_sequence<I...>)
{
  return requires { T{(static_cast<void>(I), Anything{})...}; };
}

/// The number of members of a struct without constructors.
template <class T, std::size_t Most = 10>
[[nodiscard]] constexpr std::size_t member_count()
{
  if constexpr (Most == 0 || takes<T>(std::make_index_sequence<Most>{}))
    return Most;
  else
    return member_count<T, Most - 1>();
}

/// References to the members of a struct.
template <class S>
[[nodiscard]] auto members(S& s)
{
  using T = std::remove_const_t<S>;
  static_assert(std::is_aggregate_v<T>, "no archive for this type: add it, or return a struct");
  constexpr std::size_t count = member_count<T>();
  if constexpr (count == 0)
  {
    return std::tuple<>{};
  }
  else if constexpr (count == 1)
  {
    auto& [a] = s;
    return std::tie(a);
  }
  else if constexpr (count == 2)
  {
    auto& [a, b] = s;
    return std::tie(a, b);
  }
  else if constexpr (count == 3)
  {
    auto& [a, b, c] = s;
    return std::tie(a, b, c);
  }
  else if constexpr (count == 4)
  {
    auto& [a, b, c, d] = s;
    return std::tie(a, b, c, d);
  }
  else if constexpr (count == 5)
  {
    auto& [a, b, c, d, e] = s;
    return std::tie(a, b, c, d, e);
  }
  else if constexpr (count == 6)
  {
    auto& [a, b, c, d, e, f] = s;
    return std::tie(a, b, c, d, e, f);
  }
  else if constexpr (count == 7)
  {
    auto& [a, b, c, d, e, f, g] = s;
    return std::tie(a, b, c, d, e, f, g);
  }
  else if constexpr (count == 8)
  {
    auto& [a, b, c, d, e, f, g, h] = s;
    return std::tie(a, b, c, d, e, f, g, h);
  }
  else if constexpr (count == 9)
  {
    auto& [a, b, c, d, e, f, g, h, i] = s;
    return std::tie(a, b, c, d, e, f, g, h, i);
  }
  else
  {
    auto& [a, b, c, d, e, f, g, h, i, j] = s;
    return std::tie(a, b, c, d, e, f, g, h, i, j);
  }
}

template <class T>
inline constexpr bool is_plain = std::is_arithmetic_v<T> || std::is_enum_v<T>;
template <class T>
inline constexpr bool is_plain<std::complex<T>> = true;
template <ShortReal T>
inline constexpr bool is_plain<T> = true;

template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;

// clang-format off
template <class T>
concept Sequence = requires(T& t) { t.resize(t.size()); t.begin(); };  // a vector, a string
template <class T>
concept Tensor = requires(T& t) { t.dimension(); T::from_shape(t.shape()); };
template <class T>
concept TupleLike = requires { std::tuple_size<T>::value; };
template <class T>
concept WithMembers = requires(T& t) { t.members(); };  // a class that lists its members
// clang-format on

/// Calls f(part) for each part of a value with a fixed number of parts.
template <class S, class F>
void for_each_part(S& s, F&& f)
{
  const auto each = [&f](auto&... parts) { (f(parts), ...); };
  if constexpr (TupleLike<std::remove_const_t<S>>)
    std::apply(each, s);
  else if constexpr (WithMembers<S>)
    std::apply(each, s.members());
  else
    std::apply(each, members(s));
}

}  // namespace archive

using Bytes = std::vector<std::byte>;

/// Appends values to bytes.
class Packer
{
 public:
  template <class T>
  void operator()(const T& value)
  {
    using namespace archive;
    if constexpr (is_plain<T>)
    {
      const auto* const first = reinterpret_cast<const std::byte*>(&value);
      bytes_.insert(bytes_.end(), first, first + sizeof value);
    }
    else if constexpr (is_optional<T>)
    {
      (*this)(value.has_value());
      if (value) (*this)(*value);
    }
    else if constexpr (Tensor<T>)
    {
      for (const auto extent : value.shape()) (*this)(static_cast<std::size_t>(extent));
      for (std::size_t i = 0; i < value.size(); ++i) (*this)(value.data()[i]);
    }
    else if constexpr (Sequence<T>)
    {
      (*this)(value.size());
      for (const auto& element : value) (*this)(element);
    }
    else
      for_each_part(value, *this);
  }

  [[nodiscard]] const Bytes& bytes() const { return bytes_; }

 private:
  Bytes bytes_;
};

/// Reads values from bytes, in the order in which they were packed.
class Unpacker
{
 public:
  explicit Unpacker(Bytes bytes)
      : bytes_{std::move(bytes)}
  {
  }

  /// @throws std::out_of_range if there are too few bytes
  template <class T>
  void operator()(T& value)
  {
    using namespace archive;
    if constexpr (is_plain<T>)
    {
      if (bytes_.size() - at_ < sizeof value)
        throw std::out_of_range{
            "got fewer bytes than the value needs, so it cannot be read; unpack what was packed"};
      std::memcpy(&value, bytes_.data() + at_, sizeof value);
      at_ += sizeof value;
    }
    else if constexpr (is_optional<T>)
    {
      bool has_value = false;
      (*this)(has_value);
      if (has_value) (*this)(value.emplace());
    }
    else if constexpr (Tensor<T>)
    {
      auto shape = value.shape();
      for (auto& extent : shape) extent = take<std::size_t>();
      value = T::from_shape(shape);
      for (std::size_t i = 0; i < value.size(); ++i) (*this)(value.data()[i]);
    }
    else if constexpr (Sequence<T>)
    {
      value.resize(take<std::size_t>());
      for (auto& element : value) (*this)(element);
    }
    else
      for_each_part(value, *this);
  }

  template <class T>
  [[nodiscard]] T take()
  {
    T value{};
    (*this)(value);
    return value;
  }

  [[nodiscard]] bool at_end() const { return at_ == bytes_.size(); }

 private:
  Bytes bytes_;
  std::size_t at_ = 0;
};

template <class T>
[[nodiscard]] Bytes packed(const T& value)
{
  Packer pack;
  pack(value);
  return pack.bytes();
}

template <class T>
[[nodiscard]] T unpacked(Bytes bytes)
{
  return Unpacker{std::move(bytes)}.take<T>();
}

}  // namespace cubist::test
