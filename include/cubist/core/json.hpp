// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The one reader of JSON files. nlohmann::json parses any depth, but it copies and prints values
// recursively, and some versions also destroy them recursively, so a file that is nested half a
// million deep would overflow the stack. This reader limits depth and size. It also refuses a
// second value of the same name and bytes behind a zero, which other readers ignore.

#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "cubist/core/compiled.hpp"
#include "cubist/core/error.hpp"

namespace cubist::CUBIST_ABI
{

/// Lists and objects may be nested this deep; no file that cubist reads needs a tenth of it.
inline constexpr std::size_t json_depth_limit = 64;
/// The largest file that is read, in bytes.
inline constexpr std::size_t json_bytes_limit = std::size_t{1} << 28;

/// What the messages about a JSON file say.
struct JsonUse
{
  const char* consequence;  ///< why the fault is a problem: "so the machine stays unknown"
  const char* if_missing;   ///< what to do about a file that cannot be read
  const char* if_damaged;   ///< what to do about a file that is no JSON
};

/// A value as a message shows it: at most `limit` characters of printable ASCII.
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

/// @param file the name of the text's file, for messages
/// @throws DataError for a text that is no JSON, is nested deeper than json_depth_limit, or has two
/// values of one name in an object
[[nodiscard]] nlohmann::json parse_json(std::string_view text, const std::string& file,
                                        const JsonUse& use);

/// The text of a file.
/// @throws DataError for a file that cannot be read, or is longer than json_bytes_limit
[[nodiscard]] std::string read_json_text(const std::string& path, const JsonUse& use);

/// @throws DataError as read_json_text() and parse_json()
[[nodiscard]] nlohmann::json read_json(const std::string& path, const JsonUse& use);

#ifndef CUBIST_COMPILED

CUBIST_INLINE std::string excerpt(const nlohmann::json& value, std::size_t limit)
{
  std::string text =
      value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);  // true: ASCII
  if (text.size() > limit) text.replace(limit, text.npos, "...");
  return text;
}

CUBIST_INLINE nlohmann::json parse_json(std::string_view text, const std::string& file,
                                        const JsonUse& use)
{
  const auto refuse = [&](std::size_t byte) {
    return DataError{detail::join({"got ", file, ", which is not JSON at byte ", byte, ", ",
                                   use.consequence, "; ", use.if_damaged})};
  };
  // The parser takes a zero byte for the end.
  if (const auto zero = text.find('\0'); zero != text.npos) throw refuse(zero + 1);
  using Json = nlohmann::json;
  std::vector<std::set<std::string>> names;  // the names in each object that has begun
  // Checks the structure while the parser, which does not recurse, reads it.
  const auto check = [&](int depth, Json::parse_event_t event, const Json& value) {
    using Event = Json::parse_event_t;
    if (event == Event::object_start || event == Event::array_start)
      require<DataError>(static_cast<std::size_t>(depth) < json_depth_limit, "got ", file,
                         ", whose JSON is nested more than ", json_depth_limit,
                         " deep, which no file that cubist reads needs, ", use.consequence, "; ",
                         use.if_damaged);
    if (event == Event::object_start) names.emplace_back();
    if (event == Event::object_end) names.pop_back();
    if (event == Event::key)
      require<DataError>(names.back().insert(value.get<std::string>()).second, "got ", file,
                         ", whose JSON has two values for ", excerpt(value),
                         ", of which only one would be used; remove the other one");
    return true;
  };
  try
  {
    return Json::parse(text, check);
  }
  catch (const nlohmann::json::parse_error& error)
  {
    throw refuse(error.byte);
  }
  catch (const nlohmann::json::exception&)
  {
    throw DataError{detail::join({"got ", file, ", which has a number that no double can hold, ",
                                  use.consequence, "; ", use.if_damaged})};
  }
}

CUBIST_INLINE std::string read_json_text(const std::string& path, const JsonUse& use)
{
  std::ifstream file{path, std::ios::binary};
  std::string text;
  std::array<char, 1 << 16> piece;
  while (text.size() <= json_bytes_limit &&
         (file.read(piece.data(), piece.size()) || file.gcount() > 0))
    text.append(piece.data(), static_cast<std::size_t>(file.gcount()));
  require<DataError>(text.size() <= json_bytes_limit, "got ", path, ", which has more than ",
                     json_bytes_limit, " bytes, more than any file of this kind, ", use.consequence,
                     "; ", use.if_damaged);
  require<DataError>(file.eof() && !file.bad(), "cannot read ", path, ", ", use.consequence, "; ",
                     use.if_missing);
  return text;
}

CUBIST_INLINE nlohmann::json read_json(const std::string& path, const JsonUse& use)
{
  return parse_json(read_json_text(path, use), path, use);
}

#endif

}  // namespace cubist::CUBIST_ABI
