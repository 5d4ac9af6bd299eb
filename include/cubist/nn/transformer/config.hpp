// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// config.json, where Hugging Face keeps the sizes and kinds of a transformer's parts: reading and
// writing it. config_keys.hpp has the keys.
//
// Source: Hugging Face transformers, GPT2Config and LlamaConfig.

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "cubist/core/error.hpp"
#include "cubist/core/json.hpp"
#include "cubist/io/other_formats.hpp"
#include "cubist/nn/transformer/config_keys.hpp"
#include "cubist/nn/transformer/end_ids.hpp"
#include "cubist/nn/transformer/transformer_config.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

inline constexpr JsonUse config_use{"so the model's sizes are unknown",
                                    "give the folder of a model of Hugging Face",
                                    "take the config.json of the model"};

/// Sets a configuration from the keys of a config.json.
class ConfigReader
{
  using Json = nlohmann::json;

 public:
  /// @param json an object
  ConfigReader(const Json& json, const std::string& file)
      : json_{&json}, file_{file}, family_{&find_family()}, config_{defaults_of(*family_)}
  {
  }

  [[nodiscard]] TransformerConfig read()
  {
    for (const auto& [name, value] : json_->items())
      require<ArgumentError>(value.is_null() || knows_key(*family_, name), file_, " has ",
                             excerpt(name), " = ", excerpt(value),
                             ", which cubist does not know, so the model may be another than would "
                             "be computed; use a model without it, or remove it from the file if "
                             "it changes nothing");
    for (const ConfigKey& key : common_keys) read(key);
    for (const ConfigKey& key : family_->keys) read(key);
    if (config_.feed_forward == 0) config_.feed_forward = 4 * config_.width;
    if (!config_.learned_positions && config_.key_value_heads == 0)
      config_.key_value_heads = config_.heads;
    config_.check();
    return config_;
  }

 private:
  [[nodiscard]] const ModelFamily& find_family() const
  {
    const char* name = json_->contains("model_type") ? "model_type" : "architecture";
    const auto type = json_->find(name);
    const auto classes = json_->find("architectures");
    for (const ModelFamily* family : {&gpt2_family, &llama_family})
      if (type != json_->end()
              ? *type == family->type
              : classes != json_->end() && *classes == Json::array({family->architecture}))
        return *family;
    require<DataError>(type != json_->end(), file_,
                       " has no model_type, so it is unknown which layers the model has; add "
                       "\"model_type\": \"gpt2\" or \"model_type\": \"llama\", whichever it is");
    throw ArgumentError{file_ + " has a model of type " + excerpt(*type) +
                        ", whose layers cubist does not have; use gpt2 or llama"};
  }

  void read(const ConfigKey& key)
  {
    const std::string name{key.name};
    const auto found = json_->find(name);
    const Json* value = found == json_->end() ? nullptr : &*found;
    if (const auto* size = std::get_if<SizeKey>(&key.meaning))
    {
      const bool given = value != nullptr && !value->is_null();
      require<DataError>(given || size->optional, file_, " has no ", name, ", ",
                         config_use.consequence, "; ", config_use.if_damaged);
      if (given) config_.*size->size = whole(name, *value, size->most);
    }
    if (value == nullptr) return;
    if (const auto* number = std::get_if<NumberKey>(&key.meaning))
      config_.*number->number = positive(name, *value);
    if (const auto* flag = std::get_if<FlagKey>(&key.meaning))
    {
      expect(value->is_boolean(), name, *value, "true or false");
      config_.*flag->flag = value->get<bool>();
    }
    if (const auto* accepted = std::get_if<OneOfKey>(&key.meaning))
      require_one_of(name, *value, Json::parse(accepted->values));
    if (std::holds_alternative<RotaryKey>(key.meaning) && !value->is_null())
      read_rotary(name, *value);
  }

  [[nodiscard]] std::size_t whole(const std::string& name, const Json& value,
                                  std::size_t most) const
  {
    const bool fits = json_holds<std::size_t>(value) && value.get<std::size_t>() > 0 &&
                      value.get<std::size_t>() <= most;
    expect(fits, name, value, "a whole number from 1 to " + std::to_string(most));
    return value.get<std::size_t>();
  }
  [[nodiscard]] double positive(const std::string& name, const Json& value) const
  {
    expect(value.is_number() && value.get<double>() > 0, name, value, "a number above 0");
    return value.get<double>();
  }
  void expect(bool holds, const std::string& name, const Json& value,
              const std::string& wanted) const
  {
    require<DataError>(holds, file_, " has ", excerpt(value), " for ", name, " where ", wanted,
                       " belongs, ", config_use.consequence, "; ", config_use.if_damaged);
  }
  void require_one_of(const std::string& name, const Json& value, const Json& accepted) const
  {
    std::string names;
    for (const Json& one : accepted)
      if (!one.is_null()) names += (names.empty() ? "" : " or ") + one.dump();
    require<ArgumentError>(std::find(accepted.begin(), accepted.end(), value) != accepted.end(),
                           file_, " has ", excerpt(value), " for ", name,
                           ", which cubist does not compute, so its results would be others; use a "
                           "model that has ",
                           names, " there");
  }

  /// Sets the base of the rotary angles from "rope_theta", or from an object with it.
  void read_rotary(const std::string& name, const Json& value)
  {
    if (name == "rope_theta") return set_base(name, positive(name, value));
    expect(value.is_object(), name, value, "an object");
    // The type first, as the other entries depend on it. Old versions wrote "type".
    for (const char* type : {"rope_type", "type"})
      if (value.contains(type))
        require_one_of(name + "." + type, value.at(type), Json::array({"default"}));
    for (const auto& [entry, inner] : value.items())
    {
      const std::string full = name + "." + entry;
      if (entry == "rope_type" || entry == "type") continue;
      if (entry == "rope_theta")
        set_base(full, positive(full, inner));
      else if (entry == "partial_rotary_factor")
        require_one_of(full, inner, Json::array({1}));
      else
        require<ArgumentError>(inner.is_null(), file_, " has ", excerpt(full), " = ",
                               excerpt(inner),
                               ", which cubist does not compute, so its results would be others; "
                               "use a model without it");
    }
  }
  void set_base(const std::string& name, double base)
  {
    require<DataError>(base_name_.empty() || base == config_.rotary_base, file_, " has ",
                       config_.rotary_base, " for ", base_name_, " and ", base, " for ", name,
                       ", so the base of the rotary angles is unclear; remove the wrong one");
    base_name_ = name;
    config_.rotary_base = base;
  }

  const Json* json_;
  const std::string& file_;
  const ModelFamily* family_;
  TransformerConfig config_;
  std::string base_name_;  // the key that has set rotary_base
};

/// Sets the keys whose values differ from what the source says.
/// @param json what is written, which begins as the source
/// @param said what the source says; null without one, where every key is set
inline void write_keys(nlohmann::json& json, const ModelFamily& family, const TransformerConfig& c,
                       const TransformerConfig* said)
{
  const auto set = [&](std::string_view name, auto value) {
    if (said == nullptr || said->*value != c.*value) json[std::string{name}] = c.*value;
  };
  for (const std::span<const ConfigKey> keys :
       {std::span<const ConfigKey>{common_keys}, family.keys})
    for (const auto& [name, meaning] : keys)
    {
      if (const auto* size = std::get_if<SizeKey>(&meaning))
      {
        if (!size->optional || c.*size->size > 0)
          set(name, size->size);
        else if (said != nullptr && said->*size->size > 0)
          json.erase(std::string{name});
      }
      if (const auto* number = std::get_if<NumberKey>(&meaning)) set(name, number->number);
      if (const auto* flag = std::get_if<FlagKey>(&meaning)) set(name, flag->flag);
    }
  if (c.learned_positions || (said != nullptr && said->rotary_base == c.rotary_base)) return;
  bool written = false;
  for (const char* object : {"rope_parameters", "rope_scaling"})
  {
    const auto found = json.find(object);
    if (found == json.end() || !found->is_object() || !found->contains("rope_theta")) continue;
    (*found)["rope_theta"] = c.rotary_base;
    written = true;
  }
  if (!written || json.contains("rope_theta")) json["rope_theta"] = c.rotary_base;
}

}  // namespace detail

/// The configuration of a GPT-2 or Llama model from the text of its config.json.
/// @param file the name of the text's file, for messages
/// @throws DataError for a text that is no configuration; ArgumentError for a model that cubist
/// does not compute, and for a key that cubist does not know; ShapeError for sizes that no machine
/// holds
[[nodiscard]] inline TransformerConfig parse_config(const std::string& text,
                                                    const std::string& file)
{
  require_no_lfs_pointer(text, file);
  const auto json = parse_json(text, file, detail::config_use);
  require<DataError>(json.is_object(), "got ", file, ", which is no JSON object, ",
                     detail::config_use.consequence, "; ", detail::config_use.if_damaged);
  auto config = detail::ConfigReader{json, file}.read();
  config.source.text = text;
  config.end_ids = detail::read_end_ids(json, file);
  return config;
}

/// The configuration of a GPT-2 or Llama model. A key that is null counts as one that is missing.
/// @param path config.json, or its folder
/// @throws DataError for a file that is missing, and as parse_config()
[[nodiscard]] inline TransformerConfig read_config(std::filesystem::path path)
{
  if (std::filesystem::is_directory(path)) path /= "config.json";
  return parse_config(read_json_text(path.string(), detail::config_use), path.string());
}

/// The text of config.json for a GPT-2 or Llama model. One that was read keeps all keys of its
/// file, and the values that have not changed.
/// @param elements the type of the saved weights by its name in PyTorch, as "bfloat16", which
/// replaces the one that the file had
/// @throws ArgumentError for a model that is neither
[[nodiscard]] inline std::string config_text(TransformerConfig c, const char* elements = nullptr)
{
  const bool llama = !c.learned_positions;
  require<ArgumentError>(
      c.gated == llama && c.bias != llama && (c.norm == Norm::rms_norm) == llama,
      "got a transformer that is neither GPT-2 nor Llama, so Hugging Face has no "
      "configuration for it; save its parameters with save_safetensors");
  const auto& family = llama ? detail::llama_family : detail::gpt2_family;
  if (c.feed_forward == 0) c.feed_forward = 4 * c.width;
  if (llama && c.key_value_heads == 0) c.key_value_heads = c.heads;
  nlohmann::json json;
  if (!c.source.text.empty())
  {
    const auto said = parse_config(c.source.text, "the configuration's source");
    // A model of another family has other keys.
    if (said.learned_positions == c.learned_positions)
    {
      json = parse_json(c.source.text, "the configuration's source", detail::config_use);
      detail::write_keys(json, family, c, &said);
    }
  }
  if (json.is_null())
  {
    json[llama ? "hidden_act" : "activation_function"] = llama ? "silu" : "gelu_new";
    detail::write_keys(json, family, c, nullptr);
  }
  if (!json.contains("model_type")) json["model_type"] = family.type;
  if (!json.contains("architectures"))
    json["architectures"] = nlohmann::json::array({family.architecture});
  detail::write_end_ids(json, c.end_ids);
  for (const char* type : {"torch_dtype", "dtype"})
    if (elements != nullptr && json.contains(type)) json[type] = elements;
  return json.dump(2) + '\n';
}

}  // namespace cubist::CUBIST_ABI
