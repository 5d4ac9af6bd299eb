// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The weights of a transformer in the files of Hugging Face: model.safetensors, or several of them
// with an index, and config.json.
//
// A load reads on each rank its own blocks. A save gathers one tensor at a time on rank 0.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "cubist/core/error.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/dist/global.hpp"
#include "cubist/io/atomic_file.hpp"
#include "cubist/io/element_type.hpp"
#include "cubist/io/safetensors_folder.hpp"
#include "cubist/io/safetensors_header.hpp"
#include "cubist/nn/parameter.hpp"
#include "cubist/nn/transformer/config.hpp"
#include "cubist/nn/transformer/tensor_names.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

/// The tensor's name in these files: GPT-2's on the hub have no prefix "transformer.".
[[nodiscard]] inline std::string name_in(const SafetensorsFolder& files, const std::string& name)
{
  const std::string prefix = "transformer.";
  if (files.has(name) || !name.starts_with(prefix)) return name;
  const std::string rest = name.substr(prefix.size());
  return files.has(rest) ? rest : name;
}

/// A tensor of Hugging Face, and the parameters that are in it, part after part.
struct TensorParts
{
  TensorPlace place;  // of the first part
  std::vector<std::size_t> parameters;
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
    all[at->second].parameters[place.part] = i;
  }
  return all;
}

/// The global matrix of a tensor, as its file stores it, on rank 0.
template <class T, class M>
[[nodiscard]] std::vector<T> gather_tensor(const Parameters<T, M>& parameters,
                                           const TensorParts& tensor, Shape& shape)
{
  const std::size_t rows = parameters[tensor.parameters.front()].value.shape.rows;
  std::size_t cols = 0;
  for (const std::size_t i : tensor.parameters) cols += parameters[i].value.shape.cols;
  shape = op_shape(tensor.place.transposed, {rows, cols});
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

}  // namespace detail

/// Sets the parameters of a transformer from files of Hugging Face; F16, BF16, F32 and F64 are
/// converted to T. Every rank of the mesh calls it, and idle ranks may.
/// @param path the folder, or its one safetensors file
/// @throws DataError for a tensor that is missing, of another type, or damaged, and for one that
/// the transformer does not have; ShapeError for one of another shape. No parameter has changed
/// then, unless a file was damaged or changed meanwhile.
template <class T, class M>
void load_weights(const std::filesystem::path& path, const Parameters<T, M>& parameters,
                  const TransformerConfig& config)
{
  if (parameters.empty() || !parameters.front().value.mesh.active()) return;
  const SafetensorsFolder files{path};
  std::map<std::string, bool> read;
  for (const auto& name : files.names()) read[name] = false;
  std::vector<std::pair<const SafetensorsFile*, StoredMatrix>> stored;
  for (const auto& p : parameters)
  {
    const auto place = tensor_place(config, p.name);
    const auto name = detail::name_in(files, place.name);
    const SafetensorsFile& file = files.file_of(name);
    const StoredMatrix m = file.template matrix<T>(name, place.transposed);
    const Shape wanted{p.value.shape.rows, p.value.shape.cols * place.parts};
    require<ShapeError>(m.shape == wanted, file.path(), " has ", name, " of ",
                        op_shape(place.transposed, m.shape), " where ",
                        op_shape(place.transposed, wanted), " is needed for ", p.name,
                        "; use the config.json of these files");
    read[name] = true;
    stored.emplace_back(&file, m);
  }
  for (const auto& [name, was_read] : read)
  {
    const bool buffer = name.ends_with(".attn.bias") || name.ends_with(".masked_bias") ||
                        name.ends_with(".inv_freq") || (config.tied && name == "lm_head.weight");
    require<DataError>(was_read || buffer, files.path(), " has a tensor ", name,
                       " that this transformer does not have, so the result would be another "
                       "model's; use the config.json of these files");
  }
  for (std::size_t i = 0; i < parameters.size(); ++i)
  {
    const auto place = tensor_place(config, parameters[i].name);
    const auto& x = parameters[i].value;
    stored[i].first->read(stored[i].second, place.part * x.shape.cols, x);
  }
}

/// How weights are named and split in files.
struct SaveWeightsOptions
{
  /// Tensors are saved in several files if they have more bytes.
  std::uint64_t largest_file = std::uint64_t{5} << 30;
};

/// Saves the parameters of a transformer and its config.json in a folder, which is made if it does
/// not exist, as Hugging Face's from_pretrained reads them. Every rank of the mesh calls it, and
/// idle ranks may.
/// @throws DataError where the system refuses, ArgumentError for a model that Hugging Face does not
/// have
template <class T, class M>
void save_weights(const std::filesystem::path& folder, const Parameters<T, M>& parameters,
                  const TransformerConfig& config, const SaveWeightsOptions& options = {})
{
  if (parameters.empty() || !parameters.front().value.mesh.active()) return;
  const auto& mesh = parameters.front().value.mesh;
  const auto tensors = detail::tensors_of(parameters, config);
  const auto bytes = [&](const detail::TensorParts& tensor) {
    std::uint64_t sum = 0;
    for (const std::size_t i : tensor.parameters) sum += parameters[i].value.shape.size();
    return sum * sizeof(T);
  };
  const std::string config_file = config_text(config);
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
    const auto digits = [](std::size_t n) {
      const auto text = std::to_string(n);
      return std::string(5 - std::min<std::size_t>(5, text.size()), '0') + text;
    };
    if (count == 1) return std::string{SafetensorsFolder::file_name};
    return "model-" + digits(f + 1) + "-of-" + digits(count) + ".safetensors";
  };
  if (mesh.rank() == 0)
  {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    require<DataError>(!error, "cannot create the folder ", folder.string(), " (", error.message(),
                       "), so nothing could be saved; check the path and its permissions");
  }
  mesh.world().barrier();
  nlohmann::json map;
  std::uint64_t total = 0;
  for (std::size_t f = 0; f < count; ++f)
  {
    SafetensorsHeader header{.metadata = {{"format", "pt"}}, .tensors = {}};
    std::uint64_t end = 0;
    for (std::size_t i = files[f]; i < files[f + 1]; ++i)
    {
      const auto& parts = tensors[i].parameters;
      const Shape first = parameters[parts.front()].value.shape;
      const Shape s =
          op_shape(tensors[i].place.transposed, {first.rows, first.cols * parts.size()});
      // Biases and norms have one dimension there.
      const bool vector = s.rows == 1 && !tensors[i].place.transposed;
      const auto shape =
          vector ? std::vector<std::uint64_t>{s.cols} : std::vector<std::uint64_t>{s.rows, s.cols};
      header.tensors.push_back(
          {tensors[i].place.name, element_type<T>(), shape, end, end + bytes(tensors[i])});
      end += bytes(tensors[i]);
      map[tensors[i].place.name] = file_name(f);
    }
    total += end;
    const std::string start = format_safetensors_header(header);
    AtomicFile file{mesh, folder / file_name(f), start, start.size() + end};
    for (std::size_t i = files[f]; i < files[f + 1]; ++i)
    {
      Shape shape;
      const auto all = detail::gather_tensor(parameters, tensors[i], shape);
      if (mesh.rank() == 0)
        file.file().write(start.size() + header.tensors[i - files[f]].begin,
                          std::as_bytes(std::span{all}));
    }
    file.publish();
  }
  if (count > 1)
  {
    const nlohmann::json index{{"metadata", {{"total_size", total}}}, {"weight_map", map}};
    const std::string text = index.dump(2);
    AtomicFile file{mesh, folder / SafetensorsFolder::index_name, text, text.size()};
    file.publish();
  }
  // What an earlier save in another number of files left.
  if (mesh.rank() == 0)
    std::filesystem::remove(
        folder / (count > 1 ? SafetensorsFolder::file_name : SafetensorsFolder::index_name));
  AtomicFile file{mesh, folder / "config.json", config_file, config_file.size()};
  file.publish();
}

}  // namespace cubist::CUBIST_ABI
