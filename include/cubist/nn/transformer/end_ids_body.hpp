// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The functions of end_ids.hpp that the compiled library contains.

#include <nlohmann/json.hpp>

#include "cubist/core/json.hpp"
#include "cubist/nn/transformer/end_ids.hpp"

namespace cubist::CUBIST_ABI::detail
{

inline constexpr JsonUse generation_use{"so it is unknown which tokens end a text",
                                        "check its permissions, or remove it",
                                        "take the model's own file, or remove it"};

/// Returns the ids in a configuration; none if the key is missing or null.
/// @param json an object
/// @throws DataError if the value is neither an id nor a list of ids
[[nodiscard]] inline std::vector<int> read_end_ids(const nlohmann::json& json,
                                                   const std::string& file)
{
  const auto found = json.find(end_ids_key);
  if (found == json.end() || found->is_null()) return {};
  const auto list = found->is_array() ? *found : nlohmann::json::array({*found});
  std::vector<int> ids;
  for (const auto& id : list)
  {
    require<DataError>(json_holds<int>(id) && id.get<int>() >= 0, file, " has ", excerpt(*found),
                       " for ", end_ids_key,
                       ", but a token's number, or a list of them, belongs there, so it is unknown "
                       "which tokens end a text; take the model's own file");
    ids.push_back(id.get<int>());
  }
  return ids;
}

/// Sets the ids of a configuration, unless it has them already.
inline void write_end_ids(nlohmann::json& json, const std::vector<int>& ids)
{
  if (read_end_ids(json, "the configuration's source") == ids) return;
  if (ids.empty())
    json[end_ids_key] = nullptr;
  else if (ids.size() == 1)
    json[end_ids_key] = ids.front();
  else
    json[end_ids_key] = ids;
}

/// Parses the JSON object in the text of a configuration.
/// @throws DataError if the text is not a JSON object
[[nodiscard]] inline nlohmann::json parse_object(const std::string& text, const std::string& file,
                                                 const JsonUse& use = generation_use)
{
  auto json = parse_json(text, file, use);
  require<DataError>(json.is_object(), "got ", file, ", which is not a JSON object, ",
                     use.consequence, "; ", use.if_damaged);
  return json;
}

CUBIST_INLINE std::string generation_config_text(const std::string& source,
                                                 const std::vector<int>& ids)
{
  auto json = parse_object(source, "the generation_config.json that was read");
  const auto said = read_end_ids(json, "the generation_config.json that was read");
  if (!said.empty() || ids.empty()) write_end_ids(json, ids);
  return json.dump(2) + '\n';
}

}  // namespace cubist::CUBIST_ABI::detail
