// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Reads the tensors in the folder of a Hugging Face model, from model.safetensors or from the files
// that model.safetensors.index.json names. Each tensor comes from the file that the index names for
// it. A copy in another file, which an earlier save may have left, is not read.
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

namespace cubist::CUBIST_ABI
{

/// Reads an index, which names the file of each tensor; all files are in the index's folder.
/// @param text the whole index
/// @param file the index's name, for messages
/// @throws DataError for text that is not an index, or that names anything but a file of its folder
[[nodiscard]] std::map<std::string, std::string> parse_safetensors_index(std::string_view text,
                                                                         const std::string& file);

class SafetensorsFolder
{
 public:
  /// The file name of a model in one file.
  static constexpr const char* file_name = "model.safetensors";
  /// The file name of the index of a model in several files.
  static constexpr const char* index_name = "model.safetensors.index.json";

  /// @param path the folder, or a safetensors file
  /// @throws DataError for files that are missing or damaged, for a folder with both a model in one
  /// file and an index of other files, and for files that lack what their index lists
  explicit SafetensorsFolder(const std::filesystem::path& path)
      : path_{path.string()}
  {
    open(path);
  }

  /// The path of the folder.
  [[nodiscard]] const std::string& path() const { return path_; }
  /// The names of all tensors.
  [[nodiscard]] std::vector<std::string> names() const
  {
    std::vector<std::string> all;
    for (const auto& [name, _] : files_of_tensors_) all.push_back(name);
    return all;
  }
  /// Whether a file of the folder holds the tensor.
  [[nodiscard]] bool has(const std::string& tensor) const
  {
    return files_of_tensors_.contains(tensor);
  }
  /// The file that holds a tensor.
  /// @throws DataError if no file holds it
  [[nodiscard]] const SafetensorsFile& file_of(const std::string& tensor) const
  {
    const auto found = files_of_tensors_.find(tensor);
    require<DataError>(found != files_of_tensors_.end(), path_, " has no tensor ", tensor,
                       ", so there is nothing to set it from; use the files of the same model");
    return *files_[found->second];
  }

 private:
  void open(const std::filesystem::path& path);

  /// Refuses a folder without weights that can be read, and names the other files in it.
  static void require_weights(const std::filesystem::path& folder, bool has_some);

  void add_whole(const std::filesystem::path& file);

  /// Adds each tensor from the file that the index names for it, whatever other files contain.
  void add_files(const std::filesystem::path& folder, const std::string& index,
                 const std::map<std::string, std::string>& files);

  std::string path_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, std::size_t> files_of_tensors_;
};

}  // namespace cubist::CUBIST_ABI

#include CUBIST_BODY("cubist/io/safetensors_folder_body.hpp")
