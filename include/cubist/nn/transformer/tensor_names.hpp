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
#include <span>
#include <string>
#include <string_view>

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

/// The beginning of a parameter's name, and of its tensor's in each family; null where a family has
/// no such parameter.
struct TensorName
{
  const char* ours;
  const char* gpt2;
  const char* llama;
};

/// Behind "layers.N.", "transformer.h.N." and "model.layers.N.".
inline constexpr auto names_in_layers = std::to_array<TensorName>({
    {"attention_norm.", "ln_1.", "input_layernorm."},
    {"attention.query.", "attn.c_attn.", "self_attn.q_proj."},
    {"attention.key.", "attn.c_attn.", "self_attn.k_proj."},
    {"attention.value.", "attn.c_attn.", "self_attn.v_proj."},
    {"attention.output.", "attn.c_proj.", "self_attn.o_proj."},
    {"feed_forward_norm.", "ln_2.", "post_attention_layernorm."},
    {"feed_forward.gate.", nullptr, "mlp.gate_proj."},
    {"feed_forward.up.", "mlp.c_fc.", "mlp.up_proj."},
    {"feed_forward.down.", "mlp.c_proj.", "mlp.down_proj."},
});
inline constexpr auto names_outside_layers = std::to_array<TensorName>({
    {"embedding.", "transformer.wte.", "model.embed_tokens."},
    {"positions.", "transformer.wpe.", nullptr},
    {"norm.", "transformer.ln_f.", "model.norm."},
    {"logits.", "lm_head.", "lm_head."},
});

}  // namespace detail

/// Where Hugging Face keeps a parameter of a transformer.
/// @throws ArgumentError for a name that a transformer does not have
[[nodiscard]] inline TensorPlace tensor_place(const TransformerConfig& config,
                                              const std::string& name)
{
  const bool gpt2 = config.learned_positions;
  const std::string layers = "layers.";
  const bool in_layer = name.starts_with(layers);
  const std::size_t begin = in_layer ? name.find('.', layers.size()) + 1 : 0;
  const std::string text = name.substr(begin);
  for (const detail::TensorName& known :
       in_layer ? std::span<const detail::TensorName>{detail::names_in_layers}
                : std::span<const detail::TensorName>{detail::names_outside_layers})
  {
    const char* theirs = gpt2 ? known.gpt2 : known.llama;
    if (theirs == nullptr || !text.starts_with(known.ours)) continue;
    TensorPlace place;
    const bool norm = text.find("norm.") != text.npos;
    if (in_layer)
      place.name = (gpt2 ? "transformer.h." : "model.layers.") +
                   name.substr(layers.size(), begin - layers.size());
    place.name += theirs + text.substr(std::string_view{known.ours}.size());
    place.transposed = in_layer && !gpt2 && !norm;
    place.vector = norm || name.ends_with(".bias");
    if (gpt2 && place.name.find("attn.c_attn.") != place.name.npos)
    {
      place.parts = 3;
      place.part = text.starts_with("attention.key.")     ? 1
                   : text.starts_with("attention.value.") ? 2
                                                          : 0;
    }
    return place;
  }
  throw ArgumentError{"got a parameter " + text +
                      ", which no transformer has, so Hugging Face has no name for it; pass the "
                      "parameters of a Transformer"};
}

}  // namespace cubist::CUBIST_ABI
