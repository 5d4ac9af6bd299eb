// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The ids that end a text, in config.json: "eos_token_id" is a number, a list of numbers, or null.
//
// Source: Hugging Face transformers, PretrainedConfig and GenerationConfig.

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cubist/core/error.hpp"
#include "cubist/core/json.hpp"

namespace cubist::CUBIST_ABI::detail
{

inline constexpr const char* end_ids_key = "eos_token_id";

/// The ids in a configuration; none if the key is missing or null.
/// @param json an object
/// @throws DataError for what is neither an id nor a list of ids
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
                       " where a token's number, or a list of them, belongs, so it is unknown "
                       "which tokens end a text; take the config.json of the model");
    ids.push_back(id.get<int>());
  }
  return ids;
}

/// Sets the ids of a configuration, unless they are what it says.
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

}  // namespace cubist::CUBIST_ABI::detail
