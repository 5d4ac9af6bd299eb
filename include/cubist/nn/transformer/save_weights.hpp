// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Saves the weights of a transformer in the format of Hugging Face: model.safetensors, or several
// files with an index, config.json, and generation_config.json if there was one. Rank 0 gathers one
// tensor at a time.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <list>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cubist/core/compiled.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/instances.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/gradients/parameter.hpp"
#include "cubist/io/atomic_file.hpp"
#include "cubist/io/element_type.hpp"
#include "cubist/io/file.hpp"
#include "cubist/io/safetensors_folder.hpp"
#include "cubist/io/safetensors_header.hpp"
#include "cubist/matrix/global.hpp"
#include "cubist/nn/transformer/config.hpp"
#include "cubist/nn/transformer/end_ids.hpp"
#include "cubist/nn/transformer/tensor_names.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

/// A tensor in Hugging Face's files, and the parameters that are its parts, in their order.
struct TensorParts
{
  TensorPlace place;  // the place of the first part
  std::vector<std::size_t> parameters;
  Shape shape = {};  // the shape of all parts side by side, in cubist's layout
};

/// Returns all tensors, in the order of the parameters.
template <class T, class M>
[[nodiscard]] std::vector<TensorParts> tensors_of(const Parameters<T, M>& parameters,
                                                  const TransformerConfig& config)
{
  std::vector<TensorParts> all;
  std::map<std::string, std::size_t> numbers;
  for (std::size_t i = 0; i < parameters.size(); ++i)
  {
    require_elements(parameters[i], "save_weights");
    const auto place = tensor_place(config, parameters[i].name);
    const auto [at, is_new] = numbers.emplace(place.name, all.size());
    if (is_new) all.push_back({place, std::vector<std::size_t>(place.parts)});
    TensorParts& tensor = all[at->second];
    tensor.parameters[place.part] = i;
    const Shape part = parameters[i].value.shape;
    tensor.shape = {part.rows, tensor.shape.cols + part.cols};
  }
  return all;
}

/// Gathers a tensor on rank 0, in the layout of its file.
template <class T, class M>
[[nodiscard]] std::vector<T> gather_tensor(const Parameters<T, M>& parameters,
                                           const TensorParts& tensor)
{
  const auto [rows, cols] = tensor.shape;
  std::vector<T> all;
  std::size_t first = 0;
  for (const std::size_t i : tensor.parameters)
  {
    const auto part = gather(parameters[i].value);
    const std::size_t width = parameters[i].value.shape.cols;
    all.resize(part.size() == 0 ? 0 : rows * cols);
    for (std::size_t e = 0; e < part.size(); ++e)
    {
      const std::size_t r = e / width, c = first + e % width;
      all[tensor.place.transposed ? c * rows + r : r * cols + c] = part.data()[e];
    }
    first += width;
  }
  return all;
}

/// PyTorch's name for the element type, as "torch_dtype" spells it.
template <Scalar T>
[[nodiscard]] constexpr const char* torch_name()
{
  return std::same_as<T, half>       ? "float16"
         : std::same_as<T, bfloat16> ? "bfloat16"
         : std::same_as<T, float>    ? "float32"
                                     : "float64";
}

/// Removes a file that a save has replaced, if it exists, and returns once it is gone from the
/// disk.
void remove_replaced(const std::filesystem::path& file);
/// Removes config.json and generation_config.json if they describe another model, whose weights the
/// new files replace.
/// @param config the text of the new config.json
/// @param generation the text of the new generation_config.json; empty if there will be none
/// @param end_ids the ids that end a text; a generation_config.json with the same ids may stay
void remove_other_descriptions(const std::filesystem::path& folder, const std::string& config,
                               const std::string& generation, const std::vector<int>& end_ids);
/// The files that a folder's index names; none if the index is missing or damaged.
[[nodiscard]] std::set<std::string> files_of_index(const std::filesystem::path& index);
/// Returns the text of the index of several files.
/// @param file_of_tensor the name of the file that contains each tensor
/// @param total the size of all tensors in bytes
[[nodiscard]] std::string index_text(const std::map<std::string, std::string>& file_of_tensor,
                                     std::uint64_t total);

}  // namespace detail

/// How weights are split into files.
struct SaveWeightsOptions
{
  /// The maximum size of one file's tensors in bytes; weights that exceed it are split into several
  /// files.
  std::uint64_t largest_file = std::uint64_t{5} << 30;
};

namespace detail
{

/// Divides the tensors into files of at most `largest` bytes; a larger tensor gets a file to
/// itself.
[[nodiscard]] inline std::vector<std::vector<TensorParts>>
cut_into_files(const std::vector<TensorParts>& tensors, std::size_t element, std::uint64_t largest)
{
  std::vector<std::vector<TensorParts>> files(1);
  std::uint64_t filled = 0;
  for (const TensorParts& tensor : tensors)
  {
    const std::uint64_t bytes = tensor.shape.size() * element;
    if (filled > 0 && filled + bytes > largest) files.emplace_back(), filled = 0;
    files.back().push_back(tensor);
    filled += bytes;
  }
  return files;
}

/// Returns the header of a file with these tensors of elements T.
template <class T>
[[nodiscard]] SafetensorsHeader header_of(const std::vector<TensorParts>& tensors)
{
  SafetensorsHeader header{.metadata = {{"format", "pt"}}, .tensors = {}};
  std::uint64_t end = 0;
  for (const auto& [place, _, whole] : tensors)
  {
    const Shape s = op_shape(place.transposed, whole);
    const auto shape = place.vector ? std::vector<std::uint64_t>{s.cols}
                                    : std::vector<std::uint64_t>{s.rows, s.cols};
    const std::uint64_t begin = std::exchange(end, end + whole.size() * sizeof(T));
    header.tensors.push_back({place.name, element_type<T>(), shape, begin, end});
  }
  return header;
}

/// Writes a file of these tensors under a temporary name, and appends it to `files`. Returns the
/// size of the tensors in bytes.
template <class T, class M>
std::uint64_t write_tensors(std::list<AtomicFile<M>>& files, const std::filesystem::path& path,
                            const Parameters<T, M>& parameters,
                            const std::vector<TensorParts>& tensors)
{
  const M& mesh = parameters.front().value.mesh;
  const SafetensorsHeader header = header_of<T>(tensors);
  const std::string start = format_safetensors_header(header);
  const std::uint64_t bytes = header.bytes();
  File& file = files.emplace_back(mesh, path, start, start.size() + bytes).file();
  for (std::size_t i = 0; i < tensors.size(); ++i)
  {
    const auto all = gather_tensor(parameters, tensors[i]);
    if (mesh.rank() == 0)
      file.write(start.size() + header.tensors[i].begin, std::as_bytes(std::span{all}));
  }
  return bytes;
}

/// A save that writes all files under temporary names, and publishes them together.
template <class T, class M>
class WeightSave
{
 public:
  /// Every rank of the mesh constructs one.
  WeightSave(const M& mesh, std::filesystem::path folder, std::size_t files)
      : mesh_{mesh},
        folder_{std::move(folder)},
        files_{files}
  {
    if (is_root()) create_folders(folder_);
    mesh_.world().barrier();
    if (is_root()) earlier_ = files_of_index(index_path());
  }

  /// Writes file f of the weights.
  void write_file(std::size_t f, const Parameters<T, M>& parameters,
                  const std::vector<TensorParts>& tensors)
  {
    total_ += write_tensors(weights_, path_of(f), parameters, tensors);
    for (const auto& tensor : tensors)
      file_of_tensor_[tensor.place.name] = path_of(f).filename().string();
  }
  /// Writes the index, if there are several files, and the files that describe the model.
  void write_descriptions(const std::string& config, const std::string& generation)
  {
    const auto write = [&](auto& list, const char* name, const std::string& text) {
      list.emplace_back(mesh_, folder_ / name, text, text.size());
    };
    if (files_ > 1)
      write(weights_, SafetensorsFolder::index_name, index_text(file_of_tensor_, total_));
    if (!generation.empty()) write(descriptions_, generation_config_name, generation);
    write(descriptions_, "config.json", config);
  }

  /// Gives the files their final names. They are renamed one after the other, so whatever would
  /// describe a mixture of the earlier model and this one goes first: an index whose files are
  /// replaced, and another configuration. The new configuration comes last.
  void publish(const std::string& config, const std::string& generation,
               const std::vector<int>& end_ids)
  {
    for (auto& file : weights_) file.file().sync();
    mesh_.world().barrier();
    if (is_root())
    {
      std::size_t replaced = 0;
      for (std::size_t f = 0; f < files_; ++f)
        replaced += earlier_.erase(path_of(f).filename().string());
      if (replaced > 0) remove_replaced(index_path());
      remove_other_descriptions(folder_, config, generation, end_ids);
    }
    for (auto& file : weights_) file.publish();
    if (is_root())
      remove_replaced(files_ > 1 ? folder_ / SafetensorsFolder::file_name : index_path());
    for (auto& file : descriptions_) file.publish();
    for (const auto& name : earlier_) remove_replaced(folder_ / name);
    mesh_.world().barrier();
  }

 private:
  [[nodiscard]] bool is_root() const { return mesh_.rank() == 0; }
  [[nodiscard]] std::filesystem::path index_path() const
  {
    return folder_ / SafetensorsFolder::index_name;
  }
  [[nodiscard]] std::filesystem::path path_of(std::size_t f) const
  {
    if (files_ == 1) return folder_ / SafetensorsFolder::file_name;
    return folder_ /
           ("model-" + file_number(f + 1, 5) + "-of-" + file_number(files_, 5) + ".safetensors");
  }

  M mesh_;
  std::filesystem::path folder_;
  std::size_t files_;
  std::set<std::string> earlier_;  // the files that an earlier index names, on rank 0
  std::map<std::string, std::string> file_of_tensor_;
  std::uint64_t total_ = 0;
  std::list<AtomicFile<M>> weights_;
  std::list<AtomicFile<M>> descriptions_;
};

/// Implements save_weights(); the compiled library contains it.
template <class T, class M>
void write_weights(const std::string& folder, const Parameters<T, M>& parameters,
                   const TransformerConfig& config, const SaveWeightsOptions& options)
{
  if (parameters.empty() || !parameters.front().value.mesh.active()) return;
  for (const auto& p : parameters)
    require<ArgumentError>(
        !is_of_lora(p.name), "got ", p.name,
        " among the weights to save, but a model's files have no place for it, so it would be "
        "lost; call merge_lora first, or save_adapter for A and B alone");
  const auto files =
      cut_into_files(tensors_of(parameters, config), sizeof(T), options.largest_file);
  const std::string config_file = config_text(config, torch_name<T>());
  const std::string& source = config.source.generation;
  const std::string generation =
      source.empty() ? "" : generation_config_text(source, config.end_ids);
  WeightSave<T, M> save{parameters.front().value.mesh, folder, files.size()};
  for (std::size_t f = 0; f < files.size(); ++f) save.write_file(f, parameters, files[f]);
  save.write_descriptions(config_file, generation);
  save.publish(config_file, generation, config.end_ids);
}

}  // namespace detail

/// Saves the parameters of a transformer and its config.json in the format that Hugging Face's
/// from_pretrained reads, and creates the folder if it does not exist. A configuration that was
/// read keeps the keys of its file, and a generation_config.json that was beside it is saved, too.
/// Files that an earlier save left in the folder are removed once the new files are on the disk. A
/// save that is killed leaves the earlier model, the new one, or a folder that load_weights or
/// read_config refuses. Every rank of the mesh calls it; idle ranks may, too.
/// @throws DataError if the system refuses to write, ArgumentError for a model that Hugging Face
/// does not have, or with LoRA matrices that are not merged
template <class T, class M>
void save_weights(const std::filesystem::path& folder, const Parameters<T, M>& parameters,
                  const TransformerConfig& config, const SaveWeightsOptions& options = {})
{
  detail::write_weights(folder.string(), parameters, config, options);
}

/// The instances of the compiled library (cubist/core/instances.hpp).
#define CUBIST_SAVE_WEIGHTS_INSTANCES(prefix, M, T)                                                \
  CUBIST_INSTANCE(prefix, detail::write_weights<T, M>)
CUBIST_FOR_TRAINED_MESHES(CUBIST_SAVE_WEIGHTS_INSTANCES)

}  // namespace cubist::CUBIST_ABI

#include CUBIST_BODY("cubist/nn/transformer/save_weights_body.hpp")
