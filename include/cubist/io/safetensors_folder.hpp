// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The tensors of a folder of Hugging Face: those of model.safetensors, or of the files that
// model.safetensors.index.json names.
//
//   {"metadata": {"total_size": bytes}, "weight_map": {tensor: file, …}}

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "cubist/core/error.hpp"
#include "cubist/io/quote.hpp"
#include "cubist/io/safetensors.hpp"

namespace cubist::CUBIST_ABI
{

class SafetensorsFolder
{
 public:
  /// The name of a model in one file.
  static constexpr const char* file_name = "model.safetensors";
  /// The name of the index of a model in several files.
  static constexpr const char* index_name = "model.safetensors.index.json";

  /// @param path the folder, or a safetensors file
  /// @throws DataError for files that are missing or damaged
  explicit SafetensorsFolder(const std::filesystem::path& path) : path_{path.string()}
  {
    const auto file = std::filesystem::is_directory(path) ? path / file_name : path;
    const auto index = path / index_name;
    if (std::filesystem::exists(file) || !std::filesystem::exists(index))
    {
      add(file);
      return;
    }
    std::ifstream text{index};
    const auto json = nlohmann::json::parse(text, nullptr, false);
    const bool valid =
        json.is_object() && json.contains("weight_map") && json.at("weight_map").is_object();
    require<DataError>(
        valid, index.string(),
        " is no index with a weight_map, so the files are unknown; take a fresh copy "
        "of it");
    std::map<std::string, std::size_t> files;
    for (const auto& [tensor, name] : json.at("weight_map").items())
    {
      // A name with a folder could be any file of the system.
      const auto file_of = name.is_string() ? name.get<std::string>() : std::string{};
      require<DataError>(!file_of.empty() &&
                             std::filesystem::path{file_of}.filename().string() == file_of,
                         index.string(), " has the file ", name.dump(), " for ", quote(tensor),
                         ", which is no file of its folder; take a fresh copy of it");
      if (files.emplace(file_of, files_.size()).second) add(path / file_of);
      require<DataError>(files_of_tensors_.contains(tensor), index.string(), " has ", quote(tensor),
                         " in ", std::string{name},
                         ", which does not have it; take fresh copies of both");
    }
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
  void add(const std::filesystem::path& file)
  {
    files_.push_back(std::make_unique<SafetensorsFile>(file));
    for (const auto& tensor : files_.back()->header().tensors)
      files_of_tensors_.emplace(tensor.name, files_.size() - 1);
  }

  std::string path_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, std::size_t> files_of_tensors_;
};

}  // namespace cubist::CUBIST_ABI
