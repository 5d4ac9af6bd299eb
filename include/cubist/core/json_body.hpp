// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The functions of json.hpp that the compiled library has.

#include <array>
#include <fstream>
#include <set>
#include <vector>

#include "cubist/core/json.hpp"

namespace cubist::CUBIST_ABI
{

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
  // The parser treats a zero byte as the end of the text.
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

}  // namespace cubist::CUBIST_ABI
