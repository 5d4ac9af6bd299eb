// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Saves the weights of a transformer in the format of Hugging Face: model.safetensors, or several
// files with an index, config.json, and generation_config.json if there was one. One tensor at a
// time is gathered on rank 0.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <ios>
#include <iterator>
#include <list>
#include <map>
#include <set>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "cubist/core/compiled.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/dist/global.hpp"
#include "cubist/io/atomic_file.hpp"
#include "cubist/io/element_type.hpp"
#include "cubist/io/file.hpp"
#include "cubist/io/safetensors_folder.hpp"
#include "cubist/io/safetensors_header.hpp"
#include "cubist/nn/parameter.hpp"
#include "cubist/nn/transformer/config.hpp"
#include "cubist/nn/transformer/end_ids.hpp"
#include "cubist/nn/transformer/tensor_names.hpp"

#ifndef CUBIST_COMPILED
#include <nlohmann/json.hpp>

#include "cubist/core/json.hpp"
#endif

namespace cubist::CUBIST_ABI
{

namespace detail
{

/// A tensor of Hugging Face, and the parameters that it contains, part after part.
struct TensorParts
{
  TensorPlace place;  // the place of the first part
  std::vector<std::size_t> parameters;
  Shape shape = {};  // the shape of all parts side by side, as cubist has them
};

/// All tensors, in the order of the parameters.
template <class T, class M>
[[nodiscard]] std::vector<TensorParts> tensors_of(const Parameters<T, M>& parameters,
                                                  const TransformerConfig& config)
{
  std::vector<TensorParts> all;
  std::map<std::string, std::size_t> numbers;
  for (std::size_t i = 0; i < parameters.size(); ++i)
  {
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

/// The global matrix of a tensor, as its file stores it, on rank 0.
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

/// The elements' name in PyTorch, as "torch_dtype" has it.
template <Scalar T>
[[nodiscard]] constexpr const char* torch_name()
{
  return std::same_as<T, half>       ? "float16"
         : std::same_as<T, bfloat16> ? "bfloat16"
         : std::same_as<T, float>    ? "float32"
                                     : "float64";
}

/// Removes a file that a save has replaced, if it is there, and returns when it is gone from the
/// disk.
void remove_replaced(const std::filesystem::path& file);
/// Removes config.json and generation_config.json of another model, whose weights these files
/// replace.
/// @param config the text of the new config.json
/// @param generation that of the new generation_config.json; empty if there will be none
/// @param end_ids the ids that end a text; a generation_config.json with the same ones may stay
void remove_other_descriptions(const std::filesystem::path& folder, const std::string& config,
                               const std::string& generation, const std::vector<int>& end_ids);
/// The files that a folder's index names; none without one, or where it is damaged.
[[nodiscard]] std::set<std::string> files_of_index(const std::filesystem::path& index);
/// The text of the index of several files.
/// @param file_of_tensor the name of the file that has each tensor
/// @param total the bytes of all tensors
[[nodiscard]] std::string index_text(const std::map<std::string, std::string>& file_of_tensor,
                                     std::uint64_t total);

#ifndef CUBIST_COMPILED

CUBIST_INLINE void remove_replaced(const std::filesystem::path& file)
{
  std::error_code error;
  const bool removed = std::filesystem::remove(file, error);
  require<DataError>(!error, "cannot remove ", file.string(), " (", error.message(),
                     "), which an earlier save has left, so it would be taken for a part of this "
                     "one; check the folder's permissions");
  if (removed) sync_folder(folder_of(file));
}

/// Whether a folder's generation_config.json has these ids, or none.
[[nodiscard]] inline bool has_end_ids(const std::filesystem::path& file,
                                      const std::vector<int>& ids)
try
{
  const std::string text = read_json_text(file.string(), generation_use);
  const auto said = read_end_ids(parse_generation_config(text, file.string()), file.string());
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
  // Without config.json there is no model, so it goes before the other one.
  if (!keeps || !has_text(folder / "config.json", config)) remove_replaced(folder / "config.json");
  if (!keeps) remove_replaced(beside);
}

CUBIST_INLINE std::set<std::string> files_of_index(const std::filesystem::path& index)
try
{
  std::set<std::string> names;
  if (!std::filesystem::exists(index)) return names;
  const JsonUse use{"so nothing is known of it", "check its permissions", "save it anew"};
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

#endif

}  // namespace detail

/// How weights are named and split in files.
struct SaveWeightsOptions
{
  /// Tensors are saved in several files if they have more bytes.
  std::uint64_t largest_file = std::uint64_t{5} << 30;
};

namespace detail
{

/// save_weights(), which the compiled library has.
template <class T, class M>
void write_weights(const std::string& folder_name, const Parameters<T, M>& parameters,
                   const TransformerConfig& config, const SaveWeightsOptions& options)
{
  const std::filesystem::path folder{folder_name};
  if (parameters.empty() || !parameters.front().value.mesh.active()) return;
  const auto& mesh = parameters.front().value.mesh;
  const auto tensors = tensors_of(parameters, config);
  const auto bytes = [](const TensorParts& tensor) -> std::uint64_t {
    return tensor.shape.size() * sizeof(T);
  };
  const std::string config_file = config_text(config, torch_name<T>());
  const std::string generation =
      config.source.generation.empty()
          ? ""
          : generation_config_text(config.source.generation, config.end_ids);
  // The first tensor of each file.
  std::vector<std::size_t> files{0};
  std::uint64_t filled = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i)
  {
    if (filled > 0 && filled + bytes(tensors[i]) > options.largest_file)
    {
      files.push_back(i);
      filled = 0;
    }
    filled += bytes(tensors[i]);
  }
  files.push_back(tensors.size());
  const std::size_t count = files.size() - 1;
  const auto file_name = [&](std::size_t f) {
    if (count == 1) return std::string{SafetensorsFolder::file_name};
    return "model-" + file_number(f + 1, 5) + "-of-" + file_number(count, 5) + ".safetensors";
  };
  if (mesh.rank() == 0) create_folders(folder);
  mesh.world().barrier();
  const auto index_path = folder / SafetensorsFolder::index_name;
  std::set<std::string> earlier;  // on rank 0
  if (mesh.rank() == 0) earlier = files_of_index(index_path);
  std::map<std::string, std::string> file_of_tensor;
  std::uint64_t total = 0;
  std::list<AtomicFile<M>> written;
  for (std::size_t f = 0; f < count; ++f)
  {
    SafetensorsHeader header{.metadata = {{"format", "pt"}}, .tensors = {}};
    std::uint64_t end = 0;
    for (std::size_t i = files[f]; i < files[f + 1]; ++i)
    {
      const Shape s = op_shape(tensors[i].place.transposed, tensors[i].shape);
      const auto shape = tensors[i].place.vector ? std::vector<std::uint64_t>{s.cols}
                                                 : std::vector<std::uint64_t>{s.rows, s.cols};
      header.tensors.push_back(
          {tensors[i].place.name, element_type<T>(), shape, end, end + bytes(tensors[i])});
      end += bytes(tensors[i]);
      file_of_tensor[tensors[i].place.name] = file_name(f);
    }
    total += end;
    const std::string start = format_safetensors_header(header);
    auto& file = written.emplace_back(mesh, folder / file_name(f), start, start.size() + end);
    for (std::size_t i = files[f]; i < files[f + 1]; ++i)
    {
      const auto all = gather_tensor(parameters, tensors[i]);
      if (mesh.rank() == 0)
        file.file().write(start.size() + header.tensors[i - files[f]].begin,
                          std::as_bytes(std::span{all}));
    }
  }
  const auto add = [&](auto& list, const std::filesystem::path& path, const std::string& text) {
    list.emplace_back(mesh, path, text, text.size());
  };
  std::list<AtomicFile<M>> descriptions;
  if (count > 1) add(written, index_path, index_text(file_of_tensor, total));
  if (!generation.empty()) add(descriptions, folder / generation_config_name, generation);
  add(descriptions, folder / "config.json", config_file);
  for (auto& file : written) file.file().sync();
  mesh.world().barrier();
  // The files are renamed one after the other, so whatever would describe a mixture of the earlier
  // model and this one goes first: an index whose files are replaced, and another configuration.
  // The new configuration comes last.
  if (mesh.rank() == 0)
  {
    std::size_t replaced = 0;
    for (std::size_t f = 0; f < count; ++f) replaced += earlier.erase(file_name(f));
    if (replaced > 0) remove_replaced(index_path);
    remove_other_descriptions(folder, config_file, generation, config.end_ids);
  }
  for (auto& file : written) file.publish();
  if (mesh.rank() == 0)
    remove_replaced(count > 1 ? folder / SafetensorsFolder::file_name : index_path);
  for (auto& file : descriptions) file.publish();
  if (mesh.rank() == 0)
    for (const auto& name : earlier) remove_replaced(folder / name);
  mesh.world().barrier();
}

}  // namespace detail

/// Saves the parameters of a transformer and its config.json in a folder, which is made if it does
/// not exist, as Hugging Face's from_pretrained reads them. A configuration that was read keeps the
/// keys of its file, and a generation_config.json that was beside it is saved, too. What an earlier
/// save has left in the folder is removed once the new files are on the disk. A save that is killed
/// leaves the earlier model, the new one, or a folder that load_weights or read_config refuses.
/// Every rank of the mesh calls it, and idle ranks may.
/// @throws DataError where the system refuses, ArgumentError for a model that Hugging Face does not
/// have
template <class T, class M>
void save_weights(const std::filesystem::path& folder, const Parameters<T, M>& parameters,
                  const TransformerConfig& config, const SaveWeightsOptions& options = {})
{
  detail::write_weights(folder.string(), parameters, config, options);
}

}  // namespace cubist::CUBIST_ABI
