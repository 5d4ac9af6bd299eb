// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The only reader of JSON files. nlohmann::json parses any depth, but it copies and prints values
// recursively, and some versions also destroy them recursively. So a file that is nested half a
// million deep would overflow the stack. This reader limits depth and size. It also refuses a
// second value of the same name, and bytes after a zero, which other readers ignore.

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <nlohmann/json.hpp>

#include "cubist/core/compiled.hpp"
#include "cubist/core/error.hpp"

namespace cubist::CUBIST_ABI
{

/// How deep lists and objects may be nested; no file that cubist reads needs a tenth of it.
inline constexpr std::size_t json_depth_limit = 64;
/// The largest file that is read, in bytes.
inline constexpr std::size_t json_bytes_limit = std::size_t{1} << 28;

/// What messages about a JSON file say.
struct JsonUse
{
  const char* consequence;  ///< why the fault is a problem: "so the machine's figures are unknown"
  const char* if_missing;   ///< what to do about a file that cannot be read
  const char* if_damaged;   ///< what to do about a file that is not JSON
};

/// Returns a value as messages show it: at most `limit` characters of printable ASCII.
[[nodiscard]] std::string excerpt(const nlohmann::json& value, std::size_t limit = 40);

/// Whether a value can be read as V without losing anything: a whole number that V can represent,
/// a number, a truth value or a text.
template <class V>
[[nodiscard]] bool json_holds(const nlohmann::json& value)
{
  if constexpr (std::same_as<V, bool>)
    return value.is_boolean();
  else if constexpr (std::floating_point<V>)
    return value.is_number();
  else if constexpr (std::integral<V>)
  {
    if (value.is_number_unsigned()) return std::in_range<V>(value.get<std::uint64_t>());
    if (value.is_number_integer()) return std::in_range<V>(value.get<std::int64_t>());
    if (!value.is_number_float()) return false;
    // 2^digits is the first number that V cannot represent. It is exact as a double; V's largest
    // number may not be.
    const double x = value.get<double>();
    const double end = std::ldexp(1.0, std::numeric_limits<V>::digits);
    return x == std::floor(x) && x < end && x >= (std::is_signed_v<V> ? -end : 0.0);
  }
  else
    return value.is_string();
}

/// Parses a text.
/// @param file the name of the text's file, for messages
/// @throws DataError for a text that is not JSON, is nested deeper than json_depth_limit, or has
/// two values of one name in an object
[[nodiscard]] nlohmann::json parse_json(std::string_view text, const std::string& file,
                                        const JsonUse& use);

/// Returns the text of a file.
/// @throws DataError for a file that cannot be read, or is longer than json_bytes_limit
[[nodiscard]] std::string read_json_text(const std::string& path, const JsonUse& use);

/// Reads and parses a file.
/// @throws DataError as read_json_text() and parse_json() do
[[nodiscard]] nlohmann::json read_json(const std::string& path, const JsonUse& use);

}  // namespace cubist::CUBIST_ABI

#include CUBIST_BODY("cubist/core/json_body.hpp")
