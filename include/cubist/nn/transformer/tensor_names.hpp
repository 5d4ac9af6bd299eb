// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Where Hugging Face keeps the parameters of a transformer: under which name, in which order of
// rows and columns, and in which part of a tensor that holds several parameters.
//
// GPT-2's linear layers are Conv1D, whose weights are (in, out), as here; Llama's are nn.Linear,
// with (out, in). GPT-2 keeps query, key and value as columns of one tensor. families.hpp lists the
// names. PEFT keeps LoRA's matrices as (r, in) and (out, r), under the name of their layer.

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include "cubist/core/error.hpp"
#include "cubist/model/families.hpp"
#include "cubist/model/lora_options.hpp"
#include "cubist/model/transformer_config.hpp"

namespace cubist::CUBIST_ABI
{

/// The place of a parameter in Hugging Face's tensors.
struct TensorPlace
{
  std::string name;         // the name of the tensor
  bool transposed = false;  // whether the tensor is (out, in)
  std::size_t part = 0;     // which part of the tensor's columns it is
  std::size_t parts = 1;    ///< how many of cubist's tensors it holds, side by side
  bool vector = false;      ///< one-dimensional: a bias, or the weight of a norm
};

namespace detail
{

/// Returns the names of a model's tensors: those of the family that the model's file names, if the
/// model has that family's layers, and otherwise those of the first family that has its layers.
[[nodiscard]] inline const TensorNames& tensor_names(const TransformerConfig& config)
{
  const auto has_layers = [&](const ModelFamily& family) {
    const TransformerConfig usual = family.defaults();
    return usual.learned_positions == config.learned_positions && usual.kind == config.kind;
  };
  const auto* named = find_family(config.source.family);
  if (named != nullptr && has_layers(*named)) return *named->names;
  for (const ModelFamily& family : model_families)
    if (has_layers(family)) return *family.names;
  return config.learned_positions ? gpt2_names : llama_names;
}

}  // namespace detail

/// Returns where Hugging Face keeps a parameter of a transformer, or where PEFT keeps a LoRA
/// matrix.
/// @throws ArgumentError for a name that a transformer does not have
[[nodiscard]] inline TensorPlace tensor_place(const TransformerConfig& config,
                                              const std::string& name)
{
  if (is_of_lora(name))
  {
    const bool is_a = name.ends_with("a");
    std::string layer = name.substr(0, name.rfind('.'));
    // If several layers share an A, its name begins with the first of them: "query_key_value".
    if (is_a) layer.resize(std::min(layer.size(), layer.find('_', layer.rfind('.'))));
    TensorPlace place = tensor_place(config, layer + ".weight");
    place.name = "base_model.model." + place.name.substr(0, place.name.rfind('.')) +
                 (is_a ? ".lora_A.weight" : ".lora_B.weight");
    place.transposed = true;
    if (is_a) place.part = 0, place.parts = 1;
    return place;
  }
  const auto& names = detail::tensor_names(config);
  const std::string layers = "layers.";
  const bool in_layer = name.starts_with(layers);
  const std::size_t begin = in_layer ? name.find('.', layers.size()) + 1 : 0;
  const std::string text = name.substr(begin);
  for (const detail::TensorName& known : in_layer ? names.in_layer : names.outside)
  {
    if (!text.starts_with(known.ours)) continue;
    TensorPlace place;
    const bool norm = text.find("norm.") != text.npos;
    if (in_layer) place.name = names.layers + name.substr(layers.size(), begin - layers.size());
    place.name += known.theirs + text.substr(std::string_view{known.ours}.size());
    place.vector = norm || name.ends_with(".bias");
    place.transposed = in_layer && names.transposed && !place.vector;
    place.part = known.part;
    place.parts = known.parts;
    return place;
  }
  throw ArgumentError{"got a parameter " + text +
                      ", which no transformer has, so Hugging Face has no name for it; pass the "
                      "parameters of a Transformer"};
}

}  // namespace cubist::CUBIST_ABI
