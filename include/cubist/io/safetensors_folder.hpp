// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The tensors in a folder of a Hugging Face model, from model.safetensors or from the files that
// model.safetensors.index.json names. Each tensor comes from the file that the index names for it;
// a copy in another file, which an earlier save may have left, is not read.
//
//   {"metadata": {"total_size": bytes}, "weight_map": {tensor: file, …}}

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cubist/core/compiled.hpp"
#include "cubist/core/error.hpp"
#include "cubist/io/other_formats.hpp"
#include "cubist/io/quote.hpp"
#include "cubist/io/safetensors.hpp"

#ifndef CUBIST_COMPILED
#include "cubist/core/json.hpp"
#endif

namespace cubist::CUBIST_ABI
{

/// The file of each tensor, by an index: the names of files in its folder.
/// @param text the whole index
/// @param file its name, for messages
/// @throws DataError for a text that is no index, or names what is no file of its folder
[[nodiscard]] std::map<std::string, std::string> parse_safetensors_index(std::string_view text,
                                                                         const std::string& file);

class SafetensorsFolder
{
 public:
  /// The name of a model in one file.
  static constexpr const char* file_name = "model.safetensors";
  /// The name of the index of a model in several files.
  static constexpr const char* index_name = "model.safetensors.index.json";

  /// @param path the folder, or a safetensors file
  /// @throws DataError for files that are missing or damaged, for a folder with both a model in one
  /// file and an index of others, and for files that do not have what their index says
  explicit SafetensorsFolder(const std::filesystem::path& path) : path_{path.string()}
  {
    open(path);
  }

  /// Where the folder is.
  [[nodiscard]] const std::string& path() const { return path_; }
  /// The names of all tensors.
  [[nodiscard]] std::vector<std::string> names() const
  {
    std::vector<std::string> all;
    for (const auto& [name, _] : files_of_tensors_) all.push_back(name);
    return all;
  }
  /// Whether one of its files has the tensor.
  [[nodiscard]] bool has(const std::string& tensor) const
  {
    return files_of_tensors_.contains(tensor);
  }
  /// The file that has a tensor.
  /// @throws DataError if none has it
  [[nodiscard]] const SafetensorsFile& file_of(const std::string& tensor) const
  {
    const auto found = files_of_tensors_.find(tensor);
    require<DataError>(found != files_of_tensors_.end(), path_, " has no tensor ", tensor,
                       ", so there is nothing to set it from; use the files of the same model");
    return *files_[found->second];
  }

 private:
  void open(const std::filesystem::path& path);

  /// Says which other files a folder has instead of weights that can be read.
  static void require_weights(const std::filesystem::path& folder, bool has_some);

  void add_whole(const std::filesystem::path& file);

  /// Adds each tensor from the file that the index names for it, whatever other files have.
  void add_files(const std::filesystem::path& folder, const std::string& index,
                 const std::map<std::string, std::string>& files);

  std::string path_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, std::size_t> files_of_tensors_;
};

#ifndef CUBIST_COMPILED

CUBIST_INLINE std::map<std::string, std::string> parse_safetensors_index(std::string_view text,
                                                                         const std::string& file)
{
  constexpr JsonUse use{"so it is unknown which file has which tensor",
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
      read_json_text(index, {"so it is unknown which file has which tensor",
                             "check its permissions", "take a fresh copy of it"}),
      index);
  for (const auto& [tensor, file] : files)
    require<DataError>(!is_whole || file == file_name, "got ", path_, " with ", file_name,
                       ", and with an index that has ", quote(tensor), " in ", quote(file),
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
        ", whose weights are in ", pickle,
        " only, and such a file is a Python program, which cubist does not run; save the model "
        "as safetensors, by save_pretrained of transformers");
  throw DataError{
      detail::join({"got ", folder.string(), ", which has neither ", file_name, " nor ", index_name,
                    ", so there are no weights to read; give the folder of a model "
                    "of Hugging Face"})};
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
                       ", which has ", quote(tensor), " in ", quote(file),
                       ", which does not have it; take fresh copies of both");
    files_of_tensors_.emplace(tensor, at->second);
  }
  for (const auto& file : files_)
    for (const auto& tensor : file->header().tensors)
      require<DataError>(files.contains(tensor.name), "got ", index, ", which does not name ",
                         quote(tensor.name), " of ", file->path(),
                         ", so it is unknown whether that belongs to the model; take fresh "
                         "copies of both");
}

#endif

}  // namespace cubist::CUBIST_ABI
