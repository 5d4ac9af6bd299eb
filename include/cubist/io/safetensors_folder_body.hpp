// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The functions of safetensors_folder.hpp that are in the compiled library.

#include "cubist/core/json.hpp"
#include "cubist/io/safetensors_folder.hpp"

namespace cubist::CUBIST_ABI
{

CUBIST_INLINE std::map<std::string, std::string> parse_safetensors_index(std::string_view text,
                                                                         const std::string& file)
{
  constexpr JsonUse use{"so it is unknown which file holds which tensor",
                        "check the path and its permissions", "take a fresh copy of it"};
  require_no_lfs_pointer(text, file);
  const auto json = parse_json(text, file, use);
  require<DataError>(
      json.is_object() && json.contains("weight_map") && json.at("weight_map").is_object(), "got ",
      file, ", which is not an index with a weight_map, ", use.consequence, "; ", use.if_damaged);
  std::map<std::string, std::string> files;
  for (const auto& [tensor, value] : json.at("weight_map").items())
  {
    // A name with a folder could be any file of the system.
    const auto name = value.is_string() ? value.get<std::string>() : std::string{};
    require<DataError>(!name.empty() && name.find('\0') == name.npos &&
                           std::filesystem::path{name}.filename().string() == name,
                       "got ", file, " with the file ", excerpt(value), " for ", quote(tensor),
                       ", which is not a file of its folder; take a fresh copy of it");
    files.emplace(tensor, name);
  }
  return files;
}

CUBIST_INLINE void SafetensorsFolder::open(const std::filesystem::path& path)
{
  if (!std::filesystem::is_directory(path))
  {
    add_whole(path);
    return;
  }
  const bool is_whole = std::filesystem::exists(path / file_name);
  const bool has_index = std::filesystem::exists(path / index_name);
  require_weights(path, is_whole || has_index);
  if (!has_index)
  {
    add_whole(path / file_name);
    return;
  }
  const auto index = (path / index_name).string();
  const auto files = parse_safetensors_index(
      read_json_text(index, {"so it is unknown which file holds which tensor",
                             "check its permissions", "take a fresh copy of it"}),
      index);
  for (const auto& [tensor, file] : files)
    require<DataError>(!is_whole || file == file_name, "got ", path_, ", which has ", file_name,
                       " and an index that places ", quote(tensor), " in ", quote(file),
                       ", so it is unclear which of the two is the model; remove the older one");
  add_files(path, index, files);
}

CUBIST_INLINE void SafetensorsFolder::require_weights(const std::filesystem::path& folder,
                                                      bool has_some)
{
  if (has_some) return;
  for (const char* pickle : {"pytorch_model.bin", "pytorch_model.bin.index.json"})
    require<DataError>(
        !std::filesystem::exists(folder / pickle), "got ", folder.string(),
        ", whose weights are only in ", pickle,
        ", but such a file is a Python program, which cubist does not run; save the model as "
        "safetensors, with save_pretrained of transformers");
  throw DataError{
      detail::join({"got ", folder.string(), ", which has neither ", file_name, " nor ", index_name,
                    ", so there are no weights to read; give the folder of a Hugging Face "
                    "model"})};
}

CUBIST_INLINE void SafetensorsFolder::add_whole(const std::filesystem::path& file)
{
  files_.push_back(std::make_unique<SafetensorsFile>(file));
  for (const auto& tensor : files_.back()->header().tensors)
    files_of_tensors_.emplace(tensor.name, 0);
}

CUBIST_INLINE void SafetensorsFolder::add_files(const std::filesystem::path& folder,
                                                const std::string& index,
                                                const std::map<std::string, std::string>& files)
{
  std::map<std::string, std::size_t> numbers;
  for (const auto& [tensor, file] : files)
  {
    const auto [at, is_new] = numbers.emplace(file, files_.size());
    if (is_new) files_.push_back(std::make_unique<SafetensorsFile>(folder / file));
    require<DataError>(files_[at->second]->header().find(tensor) != nullptr, "got ", index,
                       ", which lists ", quote(tensor), " in ", quote(file),
                       ", but that file lacks it; take fresh copies of both");
    files_of_tensors_.emplace(tensor, at->second);
  }
  for (const auto& file : files_)
    for (const auto& tensor : file->header().tensors)
      require<DataError>(files.contains(tensor.name), "got ", index, ", which does not name ",
                         quote(tensor.name), " of ", file->path(),
                         ", so it is unknown whether that belongs to the model; take fresh "
                         "copies of both");
}

}  // namespace cubist::CUBIST_ABI
