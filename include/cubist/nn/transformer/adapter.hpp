// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Reads and writes LoRA's matrices in the files of PEFT: adapter_config.json, and
// adapter_model.safetensors with the tensors
//
//   base_model.model.<layer>.lora_A.weight    (r, in)     A, transposed
//   base_model.model.<layer>.lora_B.weight    (out, r)    B, transposed
//
// Layers are named as the model's family names them in transformers (tensor_names.hpp). GPT-2's
// query, key and value are one layer there, c_attn, which has one A and the three B side by side.
//
// Each rank reads its own blocks. A save gathers one tensor at a time on rank 0.
//
// Source: PEFT, LoraConfig and save_and_load.py.

#include <algorithm>
#include <filesystem>
#include <list>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cubist/core/compiled.hpp"
#include "cubist/core/error.hpp"
#include "cubist/gradients/parameter.hpp"
#include "cubist/io/atomic_file.hpp"
#include "cubist/io/safetensors.hpp"
#include "cubist/io/stored_matrix.hpp"
#include "cubist/model/lora_options.hpp"
#include "cubist/model/transformer_config.hpp"
#include "cubist/nn/dense/lora.hpp"
#include "cubist/nn/parameter_names.hpp"
#include "cubist/nn/transformer/save_weights.hpp"
#include "cubist/nn/transformer/tensor_names.hpp"
#include "cubist/nn/transformer/weights.hpp"

namespace cubist::CUBIST_ABI
{

/// Returns the options of a PEFT adapter for a transformer of this configuration. Their member
/// `layers` lists the layers that the adapter changes.
/// @param text the whole adapter_config.json
/// @param file its name, for messages
/// @throws DataError if the text is not such a configuration, if cubist does not know a key or does
/// not compute what its value asks for, or if the transformer lacks a layer that the text names
[[nodiscard]] LoraOptions parse_lora_options(std::string_view text, const std::string& file,
                                             const TransformerConfig& config);

/// Returns the options of the adapter in a folder, with which the constructor of a Transformer
/// makes a model that trains it further.
/// @throws DataError as parse_lora_options(), and for a file that cannot be read
[[nodiscard]] LoraOptions read_lora_options(const std::filesystem::path& folder,
                                            const TransformerConfig& config);

namespace detail
{

inline constexpr const char* adapter_file = "adapter_model.safetensors";
inline constexpr const char* adapter_config_file = "adapter_config.json";

/// Returns the text of an adapter_config.json.
/// @param options `options.layers` holds the layers' full names
/// @param base_model the name of the model that the adapter is for; may be empty
[[nodiscard]] std::string adapter_config_text(const LoraOptions& options,
                                              const TransformerConfig& config,
                                              const std::string& base_model);

/// Returns the name of a weight without ".weight".
[[nodiscard]] inline std::string layer_of_weight(const std::string& name)
{
  return name.substr(0, name.rfind('.'));
}

/// Whether an adapter with these options changes a layer.
[[nodiscard]] inline bool is_for(const LoraOptions& options, const std::string& layer)
{
  return std::ranges::find(options.layers, layer) != options.layers.end();
}

/// Finds A or B in a file.
/// @param name  the parameter's name
/// @param wanted  the parameter's shape
/// @throws DataError if there is no such tensor, ShapeError if it has another shape
template <class T>
[[nodiscard]] StoredParameter find_lora(const SafetensorsFile& file, const std::string& name,
                                        Shape wanted, const TransformerConfig& config)
{
  const TensorPlace place = tensor_place(config, name);
  require<DataError>(file.header().find(place.name) != nullptr, file.path(), " has no tensor ",
                     place.name,
                     ", but adapter_config.json says that the layer has an adapter, so half of it "
                     "is missing; take a complete copy of the adapter");
  const StoredMatrix m = file.template matrix<T>(place.name, true);
  const Shape whole{wanted.rows, wanted.cols * place.parts};
  require<ShapeError>(
      m.shape == whole, file.path(), " has ", place.name, " of ", op_shape(true, m.shape),
      ", but this model needs ", op_shape(true, whole),
      ", so the adapter is for a model of another size or has another rank; use an adapter for "
      "this model");
  return {place.name, &file, m, place.part * wanted.cols};
}

/// Returns the LoRA matrices of a transformer, and the options that all of them share, whose
/// `layers` hold the layers' full names.
/// @throws ArgumentError if there are none, or if files have no place for them
template <class Net>
[[nodiscard]] auto saved_lora(Net& net)
{
  Parameters<typename Net::Value, typename Net::Mesh> matrices;
  LoraOptions options;
  std::vector<std::string> layers;
  for (const auto& p : net.parameters())
  {
    if (is_of_lora(p.name)) matrices.push_back(p);
    const LoraOptions* const of_layer = p.lora != nullptr ? p.lora->lora(p.lora_weight) : nullptr;
    if (of_layer == nullptr) continue;
    require<ArgumentError>(
        layers.empty() || (of_layer->rank == options.rank && of_layer->scale() == options.scale()),
        "got an adapter of rank ", of_layer->rank, " and scale ", of_layer->scale(), " for ",
        p.name,
        ", but another layer differs in them, and cubist does not write the keys that the file "
        "would need; use one rank and one scale");
    options = *of_layer;
    layers.push_back(layer_of_weight(p.name));
  }
  require<ArgumentError>(
      !matrices.empty(),
      "got a transformer without LoRA matrices, or with merged ones, so there is nothing to save; "
      "make it with LoraOptions, call unmerge_lora, or save the whole model by save_weights");
  require<ArgumentError>(
      options.shared_input == net.config().learned_positions, "got an adapter with ",
      options.shared_input
          ? "one A for query, key and value, which this family's files keep apart"
          : "a separate A for each of query, key and value, which this family's files keep in "
            "one matrix",
      ", so the files have no place for it; make the transformer with LoraOptions that leave "
      "`shared_input` as it is");
  options.layers = std::move(layers);
  return std::pair{std::move(matrices), std::move(options)};
}

}  // namespace detail

/// Loads the PEFT adapter in a folder into a transformer, and replaces the adapter that the
/// transformer has, if any. Each layer that the adapter changes gets LoRA's matrices, scale and
/// dropout. To switch between adapters, load one after the other. If the rank of the matrices
/// changes, parameters that were listed before are no longer valid. To train the adapter, make the
/// transformer with read_lora_options(folder, config), which freezes the rest.
/// Every rank of the mesh calls it; idle ranks may, too.
/// @throws DataError as read_lora_options(), and if a tensor is missing, damaged, or no part of the
/// adapter; ShapeError if the adapter is for a model of another size; ArgumentError while an
/// adapter is merged into the weights. After an error, the transformer is unchanged, unless a file
/// was damaged, or changed during the call.
template <class Net>
void load_adapter(const std::filesystem::path& folder, Net& net)
{
  using T = typename Net::Value;
  const TransformerConfig& config = net.config();
  const LoraOptions options = read_lora_options(folder, config);
  const SafetensorsFile file{folder / detail::adapter_file};
  auto parameters = net.parameters();

  std::set<std::string> tensors;
  for (const auto& p : parameters)
  {
    const auto layer = detail::layer_of_weight(p.name);
    if (p.lora == nullptr || !detail::is_for(options, layer)) continue;
    const auto [in, out] = p.shape();
    tensors.insert(detail::find_lora<T>(file, layer + ".lora_a", {in, options.rank}, config).name);
    tensors.insert(detail::find_lora<T>(file, layer + ".lora_b", {options.rank, out}, config).name);
  }
  for (const auto& tensor : file.header().tensors)
    require<DataError>(
        tensors.contains(tensor.name), file.path(), " has a tensor ", tensor.name,
        ", but adapter_config.json names no layer for it, so the files belong to two adapters; "
        "take both files of one adapter");

  for (const auto& p : parameters)
  {
    const LoraOptions* const old = p.lora != nullptr ? p.lora->lora(p.lora_weight) : nullptr;
    if (old != nullptr && (old->rank != options.rank || old->scale() != options.scale() ||
                           old->shared_input != options.shared_input ||
                           !detail::is_for(options, detail::layer_of_weight(p.name))))
      p.lora->remove_lora(p.lora_weight);
  }
  for (const auto& p : parameters)
    if (p.lora != nullptr && detail::is_for(options, detail::layer_of_weight(p.name)))
      add_lora(p, options);
  for (const auto& p : net.parameters())
  {
    if (!is_of_lora(p.name) || !p.value.mesh.active()) continue;
    const auto stored = detail::find_lora<T>(file, p.name, p.value.shape, config);
    file.read(stored.matrix, stored.first_column, p.value);
  }
}

/// Saves a transformer's LoRA matrices in the format that PEFT reads, and creates the folder if it
/// does not exist. A save that is killed leaves the earlier adapter, the new one, or no
/// adapter_config.json. Every rank of the mesh calls it; idle ranks may, too.
/// @param base_model the name of the model that the adapter is for, as on the hub
/// @throws ArgumentError if the transformer has no such matrices, or if its layers differ in rank
/// or scale; DataError if the system refuses to write
template <class Net>
void save_adapter(const std::filesystem::path& folder, Net& net, const std::string& base_model = "")
{
  const auto [matrices, options] = detail::saved_lora(net);
  const auto& mesh = matrices.front().value.mesh;
  if (!mesh.active()) return;
  if (mesh.rank() == 0) create_folders(folder);
  mesh.world().barrier();

  std::list<AtomicFile<typename Net::Mesh>> files;
  detail::write_tensors(files, folder / detail::adapter_file, matrices,
                        detail::tensors_of(matrices, net.config()));
  const std::string text = detail::adapter_config_text(options, net.config(), base_model);
  AtomicFile description{mesh, folder / detail::adapter_config_file, text, text.size()};
  // An earlier description would not fit the new matrices.
  if (mesh.rank() == 0) detail::remove_replaced(folder / detail::adapter_config_file);
  files.front().publish();
  description.publish();
}

}  // namespace cubist::CUBIST_ABI

#include CUBIST_BODY("cubist/nn/transformer/adapter_body.hpp")
