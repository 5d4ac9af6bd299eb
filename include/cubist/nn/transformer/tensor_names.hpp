// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Where Hugging Face keeps the parameters of a transformer: under which name, in which order of
// rows and columns, and in which part of a tensor that is several of ours.
//
// GPT-2's linear layers are Conv1D, whose weights are (in, out), as here; Llama's are nn.Linear,
// with (out, in). GPT-2 keeps query, key and value as columns of one tensor.
//
// Source: Hugging Face transformers, modeling_gpt2.py and modeling_llama.py.

#include <array>
#include <cstddef>
#include <string>
#include <utility>

#include "cubist/core/error.hpp"
#include "cubist/nn/transformer/config.hpp"

namespace cubist::CUBIST_ABI
{

/// The place of a parameter in tensors of Hugging Face.
struct TensorPlace
{
  std::string name;         // of the tensor
  bool transposed = false;  // (out, in)
  std::size_t part = 0;     // of its columns
  std::size_t parts = 1;    ///< tensors of cubist that one tensor of the file holds side by side
  bool vector = false;      ///< of one dimension: a bias, or the weight of a norm
};

namespace detail
{

/// The first pair whose name begins the text: its other name, and the rest of the text.
template <std::size_t n>
[[nodiscard]] std::pair<std::string, std::string>
renamed(const std::array<std::pair<const char*, const char*>, n>& names, const std::string& text)
{
  for (const auto& [ours, theirs] : names)
    if (text.starts_with(ours)) return {theirs, text.substr(std::string{ours}.size())};
  throw ArgumentError{"got a parameter " + text +
                      ", which no transformer has, so Hugging Face has no name for it; pass the "
                      "parameters of a Transformer"};
}

/// @param text the parameter's name behind "layers.N."
[[nodiscard]] inline TensorPlace place_in_gpt2_layer(const std::string& text)
{
  constexpr std::array<std::pair<const char*, const char*>, 8> names{
      {{"attention_norm.", "ln_1."},
       {"attention.query.", "attn.c_attn."},
       {"attention.key.", "attn.c_attn."},
       {"attention.value.", "attn.c_attn."},
       {"attention.output.", "attn.c_proj."},
       {"feed_forward_norm.", "ln_2."},
       {"feed_forward.up.", "mlp.c_fc."},
       {"feed_forward.down.", "mlp.c_proj."}}};
  const auto [theirs, rest] = renamed(names, text);
  const bool merged = theirs == "attn.c_attn.";
  const std::size_t part = text.starts_with("attention.key.")     ? 1
                           : text.starts_with("attention.value.") ? 2
                                                                  : 0;
  return {theirs + rest, false, part, merged ? std::size_t{3} : std::size_t{1}, false};
}

[[nodiscard]] inline TensorPlace place_in_llama_layer(const std::string& text)
{
  constexpr std::array<std::pair<const char*, const char*>, 9> names{
      {{"attention_norm.", "input_layernorm."},
       {"attention.query.", "self_attn.q_proj."},
       {"attention.key.", "self_attn.k_proj."},
       {"attention.value.", "self_attn.v_proj."},
       {"attention.output.", "self_attn.o_proj."},
       {"feed_forward_norm.", "post_attention_layernorm."},
       {"feed_forward.gate.", "mlp.gate_proj."},
       {"feed_forward.up.", "mlp.up_proj."},
       {"feed_forward.down.", "mlp.down_proj."}}};
  const auto [theirs, rest] = renamed(names, text);
  return {theirs + rest, theirs.find("norm") == std::string::npos, 0, 1, false};
}

}  // namespace detail

/// Where Hugging Face keeps a parameter of a transformer.
/// @throws ArgumentError for a name that a transformer does not have
[[nodiscard]] inline TensorPlace tensor_place(const TransformerConfig& config,
                                              const std::string& name)
{
  const bool gpt2 = config.learned_positions;
  const std::string layers = "layers.";
  const bool vector = name.ends_with(".bias") || name.find("norm.") != name.npos;
  if (name.starts_with(layers))
  {
    const auto end = name.find('.', layers.size());
    const std::string number = name.substr(layers.size(), end - layers.size());
    auto place = gpt2 ? detail::place_in_gpt2_layer(name.substr(end + 1))
                      : detail::place_in_llama_layer(name.substr(end + 1));
    place.name = (gpt2 ? "transformer.h." : "model.layers.") + number + "." + place.name;
    place.vector = vector;
    return place;
  }
  constexpr std::array<std::pair<const char*, const char*>, 4> gpt2_names{
      {{"embedding.", "transformer.wte."},
       {"positions.", "transformer.wpe."},
       {"norm.", "transformer.ln_f."},
       {"logits.", "lm_head."}}};
  constexpr std::array<std::pair<const char*, const char*>, 3> llama_names{
      {{"embedding.", "model.embed_tokens."}, {"norm.", "model.norm."}, {"logits.", "lm_head."}}};
  const auto [theirs, rest] =
      gpt2 ? detail::renamed(gpt2_names, name) : detail::renamed(llama_names, name);
  return {theirs + rest, false, 0, 1, vector};
}

}  // namespace cubist::CUBIST_ABI
