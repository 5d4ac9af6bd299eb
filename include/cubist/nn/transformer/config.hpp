// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The sizes and kinds of a transformer's parts, and config.json, where Hugging Face keeps them.
//
// Source: Hugging Face transformers, GPT2Config and LlamaConfig.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include <nlohmann/json.hpp>

#include "cubist/core/error.hpp"

namespace cubist::CUBIST_ABI
{

/// The norm before each layer.
enum class Norm : std::uint8_t
{
  layer_norm,  ///< mean and variance, a weight and a bias
  rms_norm     ///< the root mean square, and a weight
};

/// A transformer's sizes, and what its blocks are made of.
struct TransformerConfig
{
  std::size_t vocabulary = 0;
  std::size_t positions = 0;  // the tokens of the longest sequence
  std::size_t width = 0;
  std::size_t layers = 0;
  std::size_t heads = 0;
  std::size_t key_value_heads = 0;  // 0: as many as heads
  std::size_t head_size = 0;        // 0: width / heads
  std::size_t feed_forward = 0;     // 0: 4 width
  /// GPT-2's; else Q and K are rotated by their positions.
  bool learned_positions = true;
  double rotary_base = 10000;    ///< the base of rotary angles
  Norm norm = Norm::layer_norm;  ///< of each block
  double epsilon = 1e-5;
  /// SwiGLU in the feed-forward network; else GELU by tanh.
  bool gated = false;
  /// Linear layers have a bias.
  bool bias = true;
  /// The logits use the table of the embedding.
  bool tied = true;

  friend bool operator==(const TransformerConfig&, const TransformerConfig&) = default;

  /// @throws ShapeError for sizes of 0
  void check() const
  {
    require<ShapeError>(vocabulary > 0 && positions > 0 && width > 0 && layers > 0 && heads > 0,
                        "got a transformer of ", vocabulary, " tokens, ", positions,
                        " positions, width ", width, ", ", layers, " layers and ", heads,
                        " heads, which computes nothing; give it at least one of each");
  }
};

namespace detail
{

/// A value of config.json, by its name, or a default.
class ConfigReader
{
 public:
  ConfigReader(nlohmann::json json, std::string file)
      : json_(std::move(json)), file_{std::move(file)}  // braces: an array, to some compilers
  {
  }

  [[nodiscard]] bool has(const char* key) const
  {
    return json_.contains(key) && !json_.at(key).is_null();
  }
  template <class V>
  [[nodiscard]] V get(const char* key) const
  {
    require<DataError>(has(key), file_, " has no ", key,
                       ", so the model's sizes are unknown; take the config.json of the model");
    try
    {
      return json_.at(key).get<V>();
    }
    catch (const nlohmann::json::exception&)
    {
      throw DataError{file_ + " has " + json_.at(key).dump() + " for " + key +
                      ", which is of another type, so the model's sizes are unknown; take the "
                      "config.json of the model"};
    }
  }
  template <class V>
  [[nodiscard]] V get_or(const char* key, const V& otherwise) const
  {
    return has(key) ? get<V>(key) : otherwise;
  }
  /// @throws ArgumentError unless the key is absent or has this value
  template <class V>
  void require_value(const char* key, const V& wanted) const
  {
    const nlohmann::json supported = wanted;
    require<ArgumentError>(!has(key) || json_.at(key) == supported, file_, " has ",
                           has(key) ? json_.at(key).dump() : "", " for ", key,
                           ", which cubist does not compute, so its results would be others; use a "
                           "model that has ",
                           supported.dump(), " there");
  }
  void refuse(const char* key) const
  {
    require<ArgumentError>(!has(key), file_, " has ", has(key) ? json_.at(key).dump() : "", " for ",
                           key,
                           ", which cubist does not compute, so its results would be others; "
                           "use a model without it");
  }

 private:
  nlohmann::json json_;
  std::string file_;
};

[[nodiscard]] inline TransformerConfig read_gpt2(const ConfigReader& json)
{
  json.require_value("activation_function", "gelu_new");
  json.require_value("scale_attn_weights", true);
  json.require_value("scale_attn_by_inverse_layer_idx", false);
  TransformerConfig c;
  c.vocabulary = json.get<std::size_t>("vocab_size");
  c.positions = json.get<std::size_t>("n_positions");
  c.width = json.get<std::size_t>("n_embd");
  c.layers = json.get<std::size_t>("n_layer");
  c.heads = json.get<std::size_t>("n_head");
  c.feed_forward = json.get_or<std::size_t>("n_inner", 4 * c.width);
  c.epsilon = json.get_or("layer_norm_epsilon", 1e-5);
  c.tied = json.get_or("tie_word_embeddings", true);
  return c;
}

[[nodiscard]] inline TransformerConfig read_llama(const ConfigReader& json)
{
  json.require_value("hidden_act", "silu");
  json.require_value("attention_bias", false);
  json.require_value("mlp_bias", false);
  json.refuse("rope_scaling");
  TransformerConfig c;
  c.vocabulary = json.get<std::size_t>("vocab_size");
  c.positions = json.get_or<std::size_t>("max_position_embeddings", 2048);
  c.width = json.get<std::size_t>("hidden_size");
  c.layers = json.get<std::size_t>("num_hidden_layers");
  c.heads = json.get<std::size_t>("num_attention_heads");
  c.key_value_heads = json.get_or("num_key_value_heads", c.heads);
  c.head_size = json.get_or<std::size_t>("head_dim", 0);
  c.feed_forward = json.get<std::size_t>("intermediate_size");
  c.learned_positions = false;
  c.rotary_base = json.get_or("rope_theta", 10000.0);
  c.norm = Norm::rms_norm;
  c.epsilon = json.get_or("rms_norm_eps", 1e-6);
  c.gated = true;
  c.bias = false;
  c.tied = json.get_or("tie_word_embeddings", false);
  return c;
}

}  // namespace detail

/// The configuration of a GPT-2 or Llama model.
/// @param path config.json, or its folder
/// @throws DataError for a file that is missing or no configuration, ArgumentError for a model that
/// cubist does not compute
[[nodiscard]] inline TransformerConfig read_config(std::filesystem::path path)
{
  if (std::filesystem::is_directory(path)) path /= "config.json";
  std::ifstream file{path};
  require<DataError>(file.good(), "got ", path.string(),
                     ", which cannot be read, so the model's sizes are unknown; give the folder of "
                     "a model of Hugging Face");
  nlohmann::json json = nlohmann::json::parse(file, nullptr, false);
  require<DataError>(json.is_object(), path.string(),
                     " is no JSON object, so it is damaged; take a fresh copy of it");
  const detail::ConfigReader reader{json, path.string()};
  const auto type =
      reader.get<std::string>(reader.has("model_type") ? "model_type" : "architecture");
  require<ArgumentError>(type == "gpt2" || type == "llama", path.string(), " has a model of type ",
                         type, ", whose layers cubist does not have; use gpt2 or llama");
  auto config = type == "gpt2" ? detail::read_gpt2(reader) : detail::read_llama(reader);
  config.check();
  return config;
}

/// The text of config.json for a GPT-2 or Llama model.
/// @throws ArgumentError for a model that is neither
[[nodiscard]] inline std::string config_text(const TransformerConfig& c)
{
  const bool llama = !c.learned_positions;
  require<ArgumentError>(
      c.gated == llama && c.bias != llama && (c.norm == Norm::rms_norm) == llama,
      "got a transformer that is neither GPT-2 nor Llama, so Hugging Face has no "
      "configuration for it; save its parameters with save_safetensors");
  nlohmann::json json{{"model_type", llama ? "llama" : "gpt2"},
                      {"architectures", {llama ? "LlamaForCausalLM" : "GPT2LMHeadModel"}},
                      {"vocab_size", c.vocabulary},
                      {"tie_word_embeddings", c.tied}};
  const std::size_t inner = c.feed_forward == 0 ? 4 * c.width : c.feed_forward;
  if (llama)
    json.update({{"max_position_embeddings", c.positions},
                 {"hidden_size", c.width},
                 {"num_hidden_layers", c.layers},
                 {"num_attention_heads", c.heads},
                 {"num_key_value_heads", c.key_value_heads == 0 ? c.heads : c.key_value_heads},
                 {"intermediate_size", inner},
                 {"rope_theta", c.rotary_base},
                 {"rms_norm_eps", c.epsilon},
                 {"hidden_act", "silu"}});
  if (llama && c.head_size > 0) json["head_dim"] = c.head_size;
  if (!llama)
    json.update({{"n_positions", c.positions},
                 {"n_embd", c.width},
                 {"n_layer", c.layers},
                 {"n_head", c.heads},
                 {"n_inner", inner},
                 {"layer_norm_epsilon", c.epsilon},
                 {"activation_function", "gelu_new"}});
  return json.dump(2) + '\n';
}

}  // namespace cubist::CUBIST_ABI
