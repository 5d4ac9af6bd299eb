// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The families of models that cubist computes. Each has a row in `model_families` with the keys of
// its config.json, what a missing key stands for, the names of its tensors, and the sizes of
// published models.
//
// The tables have three kinds of keys: keys that are read, keys that may only have the values that
// cubist computes, and keys that are known to change nothing. A key in no table is refused, because
// it may change the model. A new family is a row; docs/families.md shows one.
//
// Source: Hugging Face transformers 4 and 5: PretrainedConfig, modeling_rope_utils.py, and the
// configurations and models of each family; the Hugging Face hub for the published models.

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "cubist/model/transformer_config.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Token ids are ints, and all other sizes of a model are smaller.
inline constexpr std::size_t largest_size = std::numeric_limits<int>::max();
inline constexpr std::size_t most_layers = 100'000;

/// The member of a configuration that holds the value of a key.
template <class T>
using ConfigMember = T TransformerConfig::*;

/// A whole number above 0. An optional key that is missing or null leaves the family's default.
struct SizeKey
{
  ConfigMember<std::size_t> size;
  bool optional = false;
  std::size_t most = largest_size;
};
/// A number above 0. A key that is missing or null leaves the family's default.
struct NumberKey
{
  ConfigMember<double> number;
};
/// A truth value. A key that is missing or null leaves the family's default.
struct FlagKey
{
  ConfigMember<bool> flag;
};
/// Whether linear layers have a bias.
struct BiasKey
{
  using Member = bool LayerBiases::*;  // nvcc puts a member of this type into parentheses

  Member layers;
  Member others = nullptr;  ///< more layers to which the key applies
};
/// The activation of a feed-forward network without a gate, by its name in transformers.
struct ActivationKey
{
};
/// The values that cubist computes, as a JSON list. The first one is transformers' default.
struct OneOfKey
{
  const char* values;
  bool null_is_missing = true;
};
/// The base of the rotary angles, the share of a head that is rotated, or an object with these and
/// the scaling: transformers 4 writes rope_theta, partial_rotary_factor and rope_scaling,
/// transformers 5 rope_parameters.
struct RotaryKey
{
};
/// A key of the sliding window: its size, whether it is on, or which layers use it.
struct WindowKey
{
};

struct ConfigKey
{
  std::string_view name;
  std::variant<SizeKey, NumberKey, FlagKey, BiasKey, ActivationKey, OneOfKey, RotaryKey, WindowKey>
      meaning;
};

/// The keys that every configuration of transformers may have.
inline constexpr auto common_keys = std::to_array<ConfigKey>({
    {"tie_word_embeddings", FlagKey{&TransformerConfig::tied}},
    {"add_cross_attention", OneOfKey{"[false]"}},
    {"is_encoder_decoder", OneOfKey{"[false]"}},
    {"pruned_heads", OneOfKey{"[{}]"}},
});
/// Keys that have no effect on what a model computes.
inline constexpr auto common_without_effect = std::to_array<std::string_view>(
    {// Who wrote the file, and for which class. "architecture" is cubist's own "model_type".
     "model_type", "architecture", "architectures", "transformers_version", "_name_or_path",
     "_commit_hash", "tokenizer_class", "prefix", "transformers.js_config", "unsloth_fixed",
     "unsloth_version",
     // The element type: files give it for each tensor, and the caller chooses it in memory.
     "torch_dtype", "dtype", "use_bfloat16",
     // Initial values.
     "initializer_range",
     // Heads of other tasks, whose tensors load_weights refuses.
     "finetuning_task", "id2label", "label2id", "num_labels", "_num_labels", "problem_type",
     "task_specific_params",
     // How the Python package computes the same results, and which of them it returns.
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
    {"activation_function", ActivationKey{}},
    {"scale_attn_weights", OneOfKey{"[true]", false}},  // transformers treats null as false
    {"scale_attn_by_inverse_layer_idx", FlagKey{&TransformerConfig::scale_by_layer}},
});
inline constexpr auto gpt2_without_effect = std::to_array<std::string_view>(
    {// Scores in float, which cubist also uses for 16-bit elements.
     "reorder_and_upcast_attn",
     // The length of the causal mask in old versions, which new ones ignore.
     "n_ctx",
     // Dropout while transformers trains; cubist's is TransformerOptions::dropout.
     "attn_pdrop", "embd_pdrop", "resid_pdrop",
     // The head of GPT2DoubleHeadsModel.
     "summary_activation", "summary_first_dropout", "summary_proj_to_labels", "summary_type",
     "summary_use_proj",
     // Keys of GPT-1 and its head, which no version uses in GPT-2.
     "n_special", "predict_special_tokens"});

/// The keys of Llama and of the families derived from it.
inline constexpr auto llama_like_keys = std::to_array<ConfigKey>({
    {"vocab_size", SizeKey{&TransformerConfig::vocabulary}},
    {"max_position_embeddings", SizeKey{&TransformerConfig::positions, true}},
    {"hidden_size", SizeKey{&TransformerConfig::width}},
    {"num_hidden_layers", SizeKey{&TransformerConfig::layers, false, most_layers}},
    {"num_attention_heads", SizeKey{&TransformerConfig::heads}},
    {"head_dim", SizeKey{&TransformerConfig::head_size, true}},
    {"intermediate_size", SizeKey{&TransformerConfig::feed_forward}},
    {"rms_norm_eps", NumberKey{&TransformerConfig::epsilon}},
    {"rope_theta", RotaryKey{}},
    {"partial_rotary_factor", RotaryKey{}},
    {"rope_scaling", RotaryKey{}},
    {"rope_parameters", RotaryKey{}},
    // Both names stand for SiLU.
    {"hidden_act", OneOfKey{R"(["silu", "swish"])"}},
});
inline constexpr auto llama_like_without_effect = std::to_array<std::string_view>(
    {// Dropout while transformers trains; cubist's is TransformerOptions::dropout.
     "attention_dropout",
     // The number of pieces in which products were summed in training, which changes only rounding.
     "pretraining_tp",
     // Other names for the positions and the model, which no version reads.
     "max_sequence_length", "is_llama_config"});

inline constexpr auto llama_keys = std::to_array<ConfigKey>({
    {"num_key_value_heads", SizeKey{&TransformerConfig::key_value_heads, true}},
    {"attention_bias", BiasKey{&LayerBiases::query_key_value, &LayerBiases::attention_output}},
    {"mlp_bias", BiasKey{&LayerBiases::feed_forward}},
    {"rope_interleaved", OneOfKey{"[false]"}},
});
inline constexpr auto mistral_keys = std::to_array<ConfigKey>({
    {"num_key_value_heads", SizeKey{&TransformerConfig::key_value_heads}},
    {"sliding_window", WindowKey{}},
});
inline constexpr auto qwen2_keys = std::to_array<ConfigKey>({
    {"num_key_value_heads", SizeKey{&TransformerConfig::key_value_heads}},
    {"sliding_window", WindowKey{}},
    {"use_sliding_window", WindowKey{}},
    {"max_window_layers", WindowKey{}},
    {"layer_types", WindowKey{}},
    {"use_mrope", OneOfKey{"[false]"}},
});
inline constexpr auto qwen3_keys = std::to_array<ConfigKey>({
    {"num_key_value_heads", SizeKey{&TransformerConfig::key_value_heads}},
    {"attention_bias", BiasKey{&LayerBiases::query_key_value, &LayerBiases::attention_output}},
    {"sliding_window", WindowKey{}},
    {"use_sliding_window", WindowKey{}},
    {"max_window_layers", WindowKey{}},
    {"layer_types", WindowKey{}},
});

/// A value and its name in transformers. A save writes the first name of each value.
template <class T>
struct HuggingFaceName
{
  std::string_view name;
  T value;
};
inline constexpr auto activation_names = std::to_array<HuggingFaceName<FeedForwardActivation>>({
    {"gelu_new", FeedForwardActivation::approximate_gelu},
    {"gelu_pytorch_tanh", FeedForwardActivation::approximate_gelu},
    {"gelu", FeedForwardActivation::exact_gelu},
    {"relu", FeedForwardActivation::rectified},
    {"silu", FeedForwardActivation::sigmoid_weighted},
    {"swish", FeedForwardActivation::sigmoid_weighted},
});
inline constexpr auto rotary_type_names = std::to_array<HuggingFaceName<RotaryScaling::Type>>({
    {"default", RotaryScaling::Type::none},
    {"linear", RotaryScaling::Type::linear},
    {"llama3", RotaryScaling::Type::llama3},
});

/// The prefix of a parameter's name, and that of its tensor's.
struct TensorName
{
  const char* ours;
  const char* theirs;
  std::size_t part = 0;   ///< the index of its part of the tensor's columns
  std::size_t parts = 1;  ///< the number of parameters that the tensor holds side by side
};
/// The names of a family's tensors.
struct TensorNames
{
  const char* layers;                    ///< the text before the number of a layer
  bool transposed;                       ///< whether linear layers are (out, in)
  std::span<const TensorName> in_layer;  ///< what follows "layers.N." here, and `layers` "N." there
  std::span<const TensorName> outside;
};

inline constexpr auto gpt2_names_in_layer = std::to_array<TensorName>({
    {"attention_norm.", "ln_1."},
    {"attention.query.", "attn.c_attn.", 0, 3},
    {"attention.key.", "attn.c_attn.", 1, 3},
    {"attention.value.", "attn.c_attn.", 2, 3},
    {"attention.output.", "attn.c_proj."},
    {"feed_forward_norm.", "ln_2."},
    {"feed_forward.up.", "mlp.c_fc."},
    {"feed_forward.down.", "mlp.c_proj."},
});
inline constexpr auto gpt2_names_outside = std::to_array<TensorName>({
    {"embedding.", "transformer.wte."},
    {"positions.", "transformer.wpe."},
    {"norm.", "transformer.ln_f."},
    {"logits.", "lm_head."},
});
inline constexpr TensorNames gpt2_names{"transformer.h.", false, gpt2_names_in_layer,
                                        gpt2_names_outside};

inline constexpr auto llama_names_in_layer = std::to_array<TensorName>({
    {"attention_norm.", "input_layernorm."},
    {"attention.query.", "self_attn.q_proj."},
    {"attention.key.", "self_attn.k_proj."},
    {"attention.value.", "self_attn.v_proj."},
    {"attention.query_norm.", "self_attn.q_norm."},
    {"attention.key_norm.", "self_attn.k_norm."},
    {"attention.output.", "self_attn.o_proj."},
    {"feed_forward_norm.", "post_attention_layernorm."},
    {"feed_forward.gate.", "mlp.gate_proj."},
    {"feed_forward.up.", "mlp.up_proj."},
    {"feed_forward.down.", "mlp.down_proj."},
});
inline constexpr auto llama_names_outside = std::to_array<TensorName>({
    {"embedding.", "model.embed_tokens."},
    {"norm.", "model.norm."},
    {"logits.", "lm_head."},
});
inline constexpr TensorNames llama_names{"model.layers.", true, llama_names_in_layer,
                                         llama_names_outside};

/// The value that a missing "max_window_layers" stands for, in the families that have the key.
inline constexpr std::size_t default_window_layer = 28;

/// The sizes of a published model.
struct PublishedModel
{
  const char* name;
  std::size_t vocabulary;
  std::size_t positions;
  std::size_t width;
  std::size_t layers;
  std::size_t heads;
  std::size_t key_value_heads;
  std::size_t feed_forward;
  std::size_t head_size = 0;  ///< 0: width / heads
  bool tied = false;
  std::size_t window = 0;  ///< the number of tokens that a token sees; 0: all

  /// @param c the defaults of its family
  [[nodiscard]] TransformerConfig config(TransformerConfig c) const
  {
    c.vocabulary = vocabulary, c.positions = positions, c.width = width, c.layers = layers;
    c.heads = heads, c.key_value_heads = key_value_heads, c.head_size = head_size;
    c.feed_forward = feed_forward, c.tied = tied, c.window = window;
    return c;
  }
};

inline constexpr auto gpt2_models = std::to_array<PublishedModel>({
    {"gpt2", 50'257, 1024, 768, 12, 12, 12, 3072, 0, true},
    {"gpt2-medium", 50'257, 1024, 1024, 24, 16, 16, 4096, 0, true},
    {"gpt2-large", 50'257, 1024, 1280, 36, 20, 20, 5120, 0, true},
    {"gpt2-xl", 50'257, 1024, 1600, 48, 25, 25, 6400, 0, true},
    {"distilgpt2", 50'257, 1024, 768, 6, 12, 12, 3072, 0, true},
    {"gpt3-175b", 50'257, 2048, 12'288, 96, 96, 96, 49'152, 0, true},  // has no files
});
inline constexpr auto llama_models = std::to_array<PublishedModel>({
    {"llama-7b", 32'000, 2048, 4096, 32, 32, 32, 11'008},
    {"llama-13b", 32'000, 2048, 5120, 40, 40, 40, 13'824},
    {"llama-65b", 32'000, 2048, 8192, 80, 64, 64, 22'016},
    {"llama2-7b", 32'000, 4096, 4096, 32, 32, 32, 11'008},
    {"llama2-13b", 32'000, 4096, 5120, 40, 40, 40, 13'824},
    {"llama2-70b", 32'000, 4096, 8192, 80, 64, 8, 28'672},
    {"llama3-8b", 128'256, 8192, 4096, 32, 32, 8, 14'336},
    {"llama3-70b", 128'256, 8192, 8192, 80, 64, 8, 28'672},
    {"llama3.1-8b", 128'256, 131'072, 4096, 32, 32, 8, 14'336},
    {"llama3.1-405b", 128'256, 131'072, 16'384, 126, 128, 8, 53'248},
    {"llama3.2-1b", 128'256, 131'072, 2048, 16, 32, 8, 8192, 64, true},
    {"llama3.2-3b", 128'256, 131'072, 3072, 28, 24, 8, 8192, 128, true},
});
inline constexpr auto mistral_models = std::to_array<PublishedModel>({
    {"mistral-7b-v0.1", 32'000, 32'768, 4096, 32, 32, 8, 14'336, 0, false, 4096},
    {"mistral-7b-v0.3", 32'768, 32'768, 4096, 32, 32, 8, 14'336},
});
inline constexpr auto qwen2_models = std::to_array<PublishedModel>({
    {"qwen2-7b", 152'064, 131'072, 3584, 28, 28, 4, 18'944},
    {"qwen2.5-0.5b", 151'936, 32'768, 896, 24, 14, 2, 4864, 0, true},
    {"qwen2.5-7b", 152'064, 131'072, 3584, 28, 28, 4, 18'944},
});
inline constexpr auto qwen3_models = std::to_array<PublishedModel>({
    {"qwen3-0.6b", 151'936, 40'960, 1024, 28, 16, 8, 3072, 128, true},
    {"qwen3-8b", 151'936, 40'960, 4096, 36, 32, 8, 12'288, 128},
});

/// Models that have the same layers and keys.
struct ModelFamily
{
  const char* type;          // "model_type" in config.json
  const char* architecture;  // the class with logits, in "architectures"
  std::span<const ConfigKey> keys;
  std::span<const ConfigKey> own_keys;  ///< in addition to those that it shares with others
  std::span<const std::string_view> without_effect;
  const TensorNames* names;
  TransformerConfig (*defaults)();  ///< the values that missing optional keys stand for
  std::size_t default_window;       ///< what a missing "sliding_window" stands for
  std::span<const PublishedModel> published;
};

[[nodiscard]] inline TransformerConfig gpt2_defaults() { return {}; }
[[nodiscard]] inline TransformerConfig llama_defaults()
{
  return {.positions = 2048,
          .learned_positions = false,
          .kind = TransformerKind::llama,
          .epsilon = 1e-6,
          .bias = false,
          .tied = false};
}
[[nodiscard]] inline TransformerConfig mistral_defaults()
{
  auto c = llama_defaults();
  c.positions = 131'072;
  return c;
}
[[nodiscard]] inline TransformerConfig qwen2_defaults()
{
  auto c = llama_defaults();
  c.positions = 32'768;
  c.bias.query_key_value = true;
  return c;
}
[[nodiscard]] inline TransformerConfig qwen3_defaults()
{
  auto c = llama_defaults();
  c.positions = 32'768;
  c.head_size = 128;
  c.head_norms = true;
  return c;
}

inline constexpr std::span<const ConfigKey> no_keys;

/// The families, in the order in which a configuration without a file is matched with them.
inline constexpr auto model_families = std::to_array<ModelFamily>({
    {"gpt2", "GPT2LMHeadModel", gpt2_keys, no_keys, gpt2_without_effect, &gpt2_names, gpt2_defaults,
     0, gpt2_models},
    {"llama", "LlamaForCausalLM", llama_like_keys, llama_keys, llama_like_without_effect,
     &llama_names, llama_defaults, 0, llama_models},
    {"mistral", "MistralForCausalLM", llama_like_keys, mistral_keys, llama_like_without_effect,
     &llama_names, mistral_defaults, 4096, mistral_models},
    {"qwen2", "Qwen2ForCausalLM", llama_like_keys, qwen2_keys, llama_like_without_effect,
     &llama_names, qwen2_defaults, 4096, qwen2_models},
    {"qwen3", "Qwen3ForCausalLM", llama_like_keys, qwen3_keys, llama_like_without_effect,
     &llama_names, qwen3_defaults, 4096, qwen3_models},
});

/// A family that cubist does not support, and the feature that cubist lacks.
struct OtherFamily
{
  const char* type;
  const char* reason;
};
inline constexpr const char* side_by_side =
    "whose attention and feed-forward network run side by side";
inline constexpr const char* experts = "which sends each token to some of several experts";
inline constexpr const char* alibi = "whose scores have ALiBi's slopes instead of positions";
inline constexpr const char* encoder = "which has an encoder";
inline constexpr auto other_families = std::to_array<OtherFamily>({
    {"bert", encoder},
    {"bloom", alibi},
    {"cohere", side_by_side},
    {"deepseek_v2", experts},
    {"deepseek_v3", experts},
    {"falcon", side_by_side},
    {"gemma", "which multiplies embeddings by the root of the width and norms by 1 + weight"},
    {"gemma2", "which limits scores and logits by tanh and has norms after its layers"},
    {"gemma3_text", "which has two rotary bases and norms after its layers"},
    {"glm4", "which has norms after its layers"},
    {"gpt_bigcode", "whose query heads share one head of keys and values in a merged tensor"},
    {"gpt_neo", "whose scores are not scaled and whose layers see a part of the tokens in turn"},
    {"gpt_neox", side_by_side},
    {"gpt_oss", experts},
    {"gptj", side_by_side},
    {"granite", "which multiplies embeddings, sums, scores and logits by its own factors"},
    {"mixtral", experts},
    {"mpt", alibi},
    {"olmo2", "which has norms after its layers"},
    {"opt", "whose learned positions begin at 2"},
    {"phi", side_by_side},
    {"phi3", "whose files merge Q, K and V, and gate and up, in one tensor each"},
    {"qwen2_moe", experts},
    {"qwen3_moe", experts},
    {"stablelm", "which has LayerNorm together with a gate"},
    {"starcoder2", "which has LayerNorm and biases together with rotary positions"},
    {"t5", encoder},
});

/// Returns "gpt2, llama, … or qwen3".
[[nodiscard]] inline std::string family_names()
{
  std::string names;
  for (std::size_t i = 0; i < model_families.size(); ++i)
  {
    names += i == 0 ? "" : i + 1 == model_families.size() ? " or " : ", ";
    names += model_families[i].type;
  }
  return names;
}

/// Returns the family with this "model_type", or null.
[[nodiscard]] inline const ModelFamily* find_family(std::string_view type)
{
  for (const auto& family : model_families)
    if (type == family.type) return &family;
  return nullptr;
}

/// Returns what cubist lacks for models with this "model_type".
[[nodiscard]] inline std::string reason_against(std::string_view type)
{
  for (const auto& other : other_families)
    if (type == other.type) return other.reason;
  return "which cubist does not know";
}

/// A key that cubist refuses in every family, and why.
struct RefusedKey
{
  std::string_view name;
  const char* reason;
};
inline constexpr const char* quantized =
    "so its weights are quantized, which cubist does not support; use the unquantized "
    "model";
inline constexpr auto refused_keys = std::to_array<RefusedKey>({
    {"quantization_config", quantized},
    {"compression_config", quantized},
    {"quantization", quantized},
    {"auto_map",
     "so the model brings its own code, which cubist does not run; use a model of a supported "
     "family"},
});

/// Whether a configuration of this family may have the key.
[[nodiscard]] inline bool knows_key(const ModelFamily& family, std::string_view name)
{
  for (const auto keys : {std::span<const ConfigKey>{common_keys}, family.keys, family.own_keys})
    for (const ConfigKey& key : keys)
      if (key.name == name) return true;
  for (const std::span<const std::string_view> names :
       {std::span<const std::string_view>{common_without_effect}, family.without_effect})
    if (std::find(names.begin(), names.end(), name) != names.end()) return true;
  return false;
}

}  // namespace cubist::CUBIST_ABI::detail
