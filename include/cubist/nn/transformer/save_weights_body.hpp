// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The functions of save_weights.hpp that the compiled library contains.

#include <fstream>
#include <ios>
#include <iterator>
#include <system_error>

#include <nlohmann/json.hpp>

#include "cubist/core/json.hpp"
#include "cubist/nn/transformer/end_ids_body.hpp"
#include "cubist/nn/transformer/save_weights.hpp"

namespace cubist::CUBIST_ABI::detail
{

CUBIST_INLINE void remove_replaced(const std::filesystem::path& file)
{
  std::error_code error;
  const bool removed = std::filesystem::remove(file, error);
  require<DataError>(
      !error, "cannot remove ", file.string(), " (", error.message(),
      "), but an earlier save left it, so it would be taken for part of this one; check the "
      "folder's permissions");
  if (removed) sync_folder(folder_of(file));
}

/// Whether a folder's generation_config.json lists these ids, or none.
[[nodiscard]] inline bool has_end_ids(const std::filesystem::path& file,
                                      const std::vector<int>& ids)
try
{
  const std::string text = read_json_text(file.string(), generation_use);
  const auto said = read_end_ids(parse_object(text, file.string()), file.string());
  return said.empty() || said == ids;
}
catch (const DataError&)
{
  return false;
}

CUBIST_INLINE void remove_other_descriptions(const std::filesystem::path& folder,
                                             const std::string& config,
                                             const std::string& generation,
                                             const std::vector<int>& end_ids)
{
  const auto has_text = [](const std::filesystem::path& file, const std::string& text) {
    std::ifstream in{file, std::ios::binary};
    return in && std::string{std::istreambuf_iterator<char>{in}, {}} == text;
  };
  const auto beside = folder / generation_config_name;
  const bool keeps = generation.empty()
                         ? !std::filesystem::exists(beside) || has_end_ids(beside, end_ids)
                         : has_text(beside, generation);
  // Without config.json there is no model, so it is removed first.
  if (!keeps || !has_text(folder / "config.json", config)) remove_replaced(folder / "config.json");
  if (!keeps) remove_replaced(beside);
}

CUBIST_INLINE std::set<std::string> files_of_index(const std::filesystem::path& index)
try
{
  std::set<std::string> names;
  if (!std::filesystem::exists(index)) return names;
  const JsonUse use{"so nothing is known of it", "check its permissions", "save it again"};
  for (const auto& [_, name] :
       parse_safetensors_index(read_json_text(index.string(), use), index.string()))
    if (name.ends_with(".safetensors")) names.insert(name);
  return names;
}
catch (const DataError&)
{
  return {};
}

CUBIST_INLINE std::string index_text(const std::map<std::string, std::string>& file_of_tensor,
                                     std::uint64_t total)
{
  const nlohmann::json index{{"metadata", {{"total_size", total}}}, {"weight_map", file_of_tensor}};
  return index.dump(2);
}

}  // namespace cubist::CUBIST_ABI::detail
