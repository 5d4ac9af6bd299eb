// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The keys of config.json, one table for each family of models. A key is read, has values that
// change the model in a way that cubist does not compute, or is known to change nothing. A key that
// is in no table is refused, since it may change the model.
//
// Source: Hugging Face transformers 4 and 5, PretrainedConfig, GPT2Config, LlamaConfig.

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <span>
#include <string_view>
#include <variant>

#include "cubist/nn/transformer/transformer_config.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Token ids are ints, and other sizes are smaller in every model.
inline constexpr std::size_t largest_size = std::numeric_limits<int>::max();
inline constexpr std::size_t most_layers = 100'000;

/// Which member of a configuration has the value of a key.
template <class T>
using ConfigMember = T TransformerConfig::*;

/// A whole number above 0. An optional key that is missing or null leaves the family's default.
struct SizeKey
{
  ConfigMember<std::size_t> size;
  bool optional = false;
  std::size_t most = largest_size;
};
/// A number above 0. A key that is missing leaves the family's default.
struct NumberKey
{
  ConfigMember<double> number;
};
/// A truth value. A key that is missing leaves the family's default.
struct FlagKey
{
  ConfigMember<bool> flag;
};
/// The values with which a model is one that cubist computes, as a JSON list.
struct OneOfKey
{
  const char* values;
};
/// The base of the rotary angles, or an object with it: transformers 4 writes rope_theta and
/// rope_scaling, transformers 5 rope_parameters.
struct RotaryKey
{
};

struct ConfigKey
{
  std::string_view name;
  std::variant<SizeKey, NumberKey, FlagKey, OneOfKey, RotaryKey> meaning;
};

/// The keys that every configuration of transformers may have.
inline constexpr auto common_keys = std::to_array<ConfigKey>({
    {"tie_word_embeddings", FlagKey{&TransformerConfig::tied}},
    {"add_cross_attention", OneOfKey{"[false, null]"}},
    {"is_encoder_decoder", OneOfKey{"[false, null]"}},
    {"pruned_heads", OneOfKey{"[{}, null]"}},
});
/// Keys that have no effect on what a model computes.
inline constexpr auto common_without_effect = std::to_array<std::string_view>(
    {// Who wrote the file, and for which class. "architecture" is cubist's own "model_type".
     "model_type", "architecture", "architectures", "transformers_version", "_name_or_path",
     "_commit_hash", "tokenizer_class", "prefix",
     // The elements of the files; a file says them of each tensor, and the caller chooses his own.
     "torch_dtype", "dtype", "use_bfloat16",
     // Values before training.
     "initializer_range",
     // Heads of other tasks, whose tensors load_weights refuses.
     "finetuning_task", "id2label", "label2id", "num_labels", "_num_labels", "problem_type",
     "task_specific_params",
     // How transformers computes the same, and what it returns.
     "_attn_implementation", "_attn_implementation_autoset", "attn_implementation",
     "chunk_size_feed_forward", "gradient_checkpointing", "is_decoder", "output_attentions",
     "output_hidden_states", "output_past", "return_dict", "tf_legacy_loss", "tie_encoder_decoder",
     "torchscript", "use_cache", "use_return_dict",
     // Tokens, and the defaults of transformers' generate.
     "bos_token_id", "eos_token_id", "pad_token_id", "sep_token_id", "decoder_start_token_id",
     "forced_bos_token_id", "forced_eos_token_id", "bad_words_ids", "begin_suppress_tokens",
     "diversity_penalty", "do_sample", "early_stopping", "encoder_no_repeat_ngram_size",
     "exponential_decay_length_penalty", "length_penalty", "max_length", "min_length",
     "no_repeat_ngram_size", "num_beam_groups", "num_beams", "num_return_sequences",
     "output_scores", "remove_invalid_values", "repetition_penalty", "return_dict_in_generate",
     "suppress_tokens", "temperature", "top_k", "top_p", "typical_p"});

inline constexpr auto gpt2_keys = std::to_array<ConfigKey>({
    {"vocab_size", SizeKey{&TransformerConfig::vocabulary}},
    {"n_positions", SizeKey{&TransformerConfig::positions}},
    {"n_embd", SizeKey{&TransformerConfig::width}},
    {"n_layer", SizeKey{&TransformerConfig::layers, false, most_layers}},
    {"n_head", SizeKey{&TransformerConfig::heads}},
    {"n_inner", SizeKey{&TransformerConfig::feed_forward, true}},
    {"layer_norm_epsilon", NumberKey{&TransformerConfig::epsilon}},
    // Two names of GELU by tanh.
    {"activation_function", OneOfKey{R"(["gelu_new", "gelu_pytorch_tanh"])"}},
    {"scale_attn_weights", OneOfKey{"[true]"}},
    {"scale_attn_by_inverse_layer_idx", OneOfKey{"[false, null]"}},
});
inline constexpr auto gpt2_without_effect = std::to_array<std::string_view>(
    {// Scores in float, in which cubist computes them for elements of 16 bits, too.
     "reorder_and_upcast_attn",
     // The length of the causal mask in old versions, which new ones ignore.
     "n_ctx",
     // Dropout while transformers trains; cubist's is TransformerOptions::dropout.
     "attn_pdrop", "embd_pdrop", "resid_pdrop",
     // The head of GPT2DoubleHeadsModel.
     "summary_activation", "summary_first_dropout", "summary_proj_to_labels", "summary_type",
     "summary_use_proj",
     // Of GPT-1 and its head; no version uses them in GPT-2.
     "n_special", "predict_special_tokens"});

inline constexpr auto llama_keys = std::to_array<ConfigKey>({
    {"vocab_size", SizeKey{&TransformerConfig::vocabulary}},
    {"max_position_embeddings", SizeKey{&TransformerConfig::positions, true}},
    {"hidden_size", SizeKey{&TransformerConfig::width}},
    {"num_hidden_layers", SizeKey{&TransformerConfig::layers, false, most_layers}},
    {"num_attention_heads", SizeKey{&TransformerConfig::heads}},
    {"num_key_value_heads", SizeKey{&TransformerConfig::key_value_heads, true}},
    {"head_dim", SizeKey{&TransformerConfig::head_size, true}},
    {"intermediate_size", SizeKey{&TransformerConfig::feed_forward}},
    {"rms_norm_eps", NumberKey{&TransformerConfig::epsilon}},
    {"rope_theta", RotaryKey{}},
    {"rope_scaling", RotaryKey{}},
    {"rope_parameters", RotaryKey{}},
    // Two names of SiLU.
    {"hidden_act", OneOfKey{R"(["silu", "swish"])"}},
    {"attention_bias", OneOfKey{"[false, null]"}},
    {"mlp_bias", OneOfKey{"[false, null]"}},
    {"partial_rotary_factor", OneOfKey{"[1]"}},
    {"rope_interleaved", OneOfKey{"[false, null]"}},
});
inline constexpr auto llama_without_effect = std::to_array<std::string_view>(
    {// Dropout while transformers trains; cubist's is TransformerOptions::dropout.
     "attention_dropout",
     // In how many pieces products were summed in training: the same but for rounding.
     "pretraining_tp",
     // Other names of the positions and of the model, which no version reads.
     "max_sequence_length", "is_llama_config"});

/// Models that have the same layers and keys.
struct ModelFamily
{
  const char* type;          // "model_type" in config.json
  const char* architecture;  // the class that has logits, in "architectures"
  std::span<const ConfigKey> keys;
  std::span<const std::string_view> without_effect;
};

inline constexpr ModelFamily gpt2_family{"gpt2", "GPT2LMHeadModel", gpt2_keys, gpt2_without_effect};
inline constexpr ModelFamily llama_family{"llama", "LlamaForCausalLM", llama_keys,
                                          llama_without_effect};

/// What a configuration is where config.json says nothing else.
[[nodiscard]] inline TransformerConfig defaults_of(const ModelFamily& family)
{
  TransformerConfig c;
  if (std::string_view{family.type} == gpt2_family.type) return c;
  c.positions = 2048;
  c.learned_positions = false;
  c.norm = Norm::rms_norm;
  c.epsilon = 1e-6;
  c.gated = true;
  c.bias = false;
  c.tied = false;
  return c;
}

/// Whether a configuration of this family may have the key.
[[nodiscard]] inline bool knows_key(const ModelFamily& family, std::string_view name)
{
  const auto has = [name](const auto& names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  const auto has_key = [name](const auto& keys) {
    return std::ranges::any_of(keys, [name](auto& key) { return key.name == name; });
  };
  return has_key(common_keys) || has_key(family.keys) || has(common_without_effect) ||
         has(family.without_effect);
}

}  // namespace cubist::CUBIST_ABI::detail
