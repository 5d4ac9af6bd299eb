// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The functions of config.hpp that the compiled library contains.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include <nlohmann/json.hpp>

#include "cubist/core/json.hpp"
#include "cubist/nn/transformer/config.hpp"
#include "cubist/nn/transformer/end_ids_body.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

inline constexpr JsonUse config_use{"so the model's sizes are unknown",
                                    "give the folder of a model of Hugging Face",
                                    "take the config.json of the model"};

/// Returns the configuration, with values that have no effect on the model reset to their defaults.
[[nodiscard]] inline TransformerConfig with_effect(TransformerConfig c)
{
  const TransformerConfig usual;
  if (c.is_gated()) c.activation = usual.activation;
  if (!c.learned_positions) return c;
  c.rotary_base = usual.rotary_base;
  c.rotary_scaling = usual.rotary_scaling;
  c.rotary_fraction = usual.rotary_fraction;
  return c;
}

/// Returns the name that a save writes for a value.
template <class Names, class T>
[[nodiscard]] std::string_view name_of(const Names& names, T value)
{
  const auto is_it = [value](const auto& known) { return known.value == value; };
  return std::find_if(names.begin(), names.end(), is_it)->name;
}

/// A number in config.json that describes rotary scaling.
struct RotaryNumber
{
  using Member = double RotaryScaling::*;  // nvcc puts a member of this type into parentheses

  std::string_view name;
  Member number;
  bool of_linear;  ///< whether linear scaling uses it, too
};
inline constexpr auto rotary_numbers = std::to_array<RotaryNumber>({
    {"factor", &RotaryScaling::factor, true},
    {"low_freq_factor", &RotaryScaling::low_frequency, false},
    {"high_freq_factor", &RotaryScaling::high_frequency, false},
    {"original_max_position_embeddings", &RotaryScaling::positions, false},
});
/// Whether scaling of this type uses the number.
[[nodiscard]] inline bool counts(const RotaryNumber& number, RotaryScaling::Type type)
{
  return type == RotaryScaling::Type::llama3 ||
         (type == RotaryScaling::Type::linear && number.of_linear);
}

/// Builds a configuration from the keys of a config.json.
class ConfigReader
{
  using Json = nlohmann::json;

 public:
  /// @param json an object
  ConfigReader(const Json& json, const std::string& file)
      : json_{&json},
        file_{file},
        family_{&find_family()},
        config_{family_->defaults()}
  {
  }

  [[nodiscard]] TransformerConfig read()
  {
    for (const auto& [name, value] : json_->items())
    {
      for (const RefusedKey& key : refused_keys)
        require<ArgumentError>(name != key.name || value.is_null(), file_, " has ", excerpt(name),
                               " = ", excerpt(value), ", ", key.reason);
      require<ArgumentError>(
          value.is_null() || knows_key(*family_, name), file_, " has ", excerpt(name), " = ",
          excerpt(value),
          ", which cubist does not know, so its results may differ from the model's; use a model "
          "without it, or remove it from the file if it changes nothing");
    }
    for (const auto& keys :
         {std::span<const ConfigKey>{common_keys}, family_->keys, family_->own_keys})
      for (const ConfigKey& key : keys) read(key);
    config_.window = read_window();
    return config_.completed();
  }

  [[nodiscard]] const ModelFamily& family() const { return *family_; }

 private:
  [[nodiscard]] const ModelFamily& find_family() const
  {
    const Json* type = given("model_type");
    if (!type) type = given("architecture");
    const Json* classes = given("architectures");
    for (const ModelFamily& family : model_families)
      if (type ? *type == family.type : classes && *classes == Json::array({family.architecture}))
        return family;
    require<DataError>(type != nullptr, file_,
                       " has no model_type, so it is unknown which layers the model has; add a "
                       "\"model_type\", one of ",
                       family_names(), ", to the file");
    throw ArgumentError{file_ + " has a model of type " + excerpt(*type) + ", " +
                        reason_against(type->is_string() ? type->get<std::string>() : "") +
                        ", so cubist has no layers for it; use a model of type " + family_names()};
  }

  /// Returns the value of a key, or null if it is missing or null.
  [[nodiscard]] const Json* given(std::string_view name) const
  {
    const auto found = json_->find(std::string{name});
    return found == json_->end() || found->is_null() ? nullptr : &*found;
  }

  void read(const ConfigKey& key)
  {
    const std::string name{key.name};
    const auto* accepted = std::get_if<OneOfKey>(&key.meaning);
    const Json* value = given(name);
    if (accepted && !accepted->null_is_missing && json_->contains(name)) value = &json_->at(name);
    if (const auto* size = std::get_if<SizeKey>(&key.meaning))
    {
      require<DataError>(value || size->optional, file_, " has no ", name, ", ",
                         config_use.consequence, "; ", config_use.if_damaged);
      if (value) config_.*size->size = whole(name, *value, size->most);
    }
    if (!value) return;
    if (const auto* number = std::get_if<NumberKey>(&key.meaning))
      config_.*number->number = positive(name, *value);
    if (const auto* flag = std::get_if<FlagKey>(&key.meaning))
      config_.*flag->flag = truth(name, *value);
    if (const auto* bias = std::get_if<BiasKey>(&key.meaning))
      for (const auto layers : {bias->layers, bias->others})
        if (layers != nullptr) config_.bias.*layers = truth(name, *value);
    if (std::holds_alternative<ActivationKey>(key.meaning))
      config_.activation = named(name, *value, activation_names);
    if (accepted) require_one_of(name, *value, Json::parse(accepted->values));
    if (std::holds_alternative<RotaryKey>(key.meaning)) read_rotary(name, *value);
  }

  template <class T, std::size_t n>
  [[nodiscard]] T named(const std::string& name, const Json& value,
                        const std::array<HuggingFaceName<T>, n>& names) const
  {
    Json accepted = Json::array();
    for (const auto& known : names)
    {
      if (value == known.name) return known.value;
      accepted.push_back(known.name);
    }
    require_one_of(name, value, accepted);
    return {};
  }

  [[nodiscard]] std::size_t whole(const std::string& name, const Json& value, std::size_t most,
                                  std::size_t least = 1) const
  {
    const bool fits = json_holds<std::size_t>(value) && value.get<std::size_t>() >= least &&
                      value.get<std::size_t>() <= most;
    expect(fits, name, value,
           "a whole number from " + std::to_string(least) + " to " + std::to_string(most));
    return value.get<std::size_t>();
  }
  [[nodiscard]] bool truth(const std::string& name, const Json& value) const
  {
    expect(value.is_boolean(), name, value, "true or false");
    return value.get<bool>();
  }
  [[nodiscard]] double positive(const std::string& name, const Json& value) const
  {
    expect(value.is_number() && value.get<double>() > 0, name, value, "a number above 0");
    return value.get<double>();
  }
  void expect(bool holds, const std::string& name, const Json& value,
              const std::string& wanted) const
  {
    require<DataError>(holds, file_, " has ", excerpt(value), " for ", name, ", but ", wanted,
                       " belongs there, ", config_use.consequence, "; ", config_use.if_damaged);
  }
  void require_one_of(const std::string& name, const Json& value, const Json& accepted) const
  {
    std::string names;
    for (const Json& one : accepted) names += (names.empty() ? "" : " or ") + one.dump();
    require<ArgumentError>(
        std::find(accepted.begin(), accepted.end(), value) != accepted.end(), file_, " has ",
        excerpt(value), " for ", name,
        ", which cubist does not support, so its results would differ from the model's; use a "
        "model that has ",
        names, " there");
  }

  /// Reads what one key says about the rotary angles: the base, the share of a head, or an object
  /// with both and the scaling.
  void read_rotary(const std::string& name, const Json& value)
  {
    if (name == "rope_theta") return set_once(base_, name, positive(name, value));
    if (name == "partial_rotary_factor") return set_once(fraction_, name, share(name, value));
    expect(value.is_object(), name, value, "an object");
    RotaryScaling scaling;
    // The type is read first, because the other entries depend on it. Old versions wrote "type".
    const auto gives = [&](std::string_view key) {
      const auto found = value.find(std::string{key});
      return found != value.end() && !found->is_null();
    };
    const char* typed = nullptr;  // the key that it was read from
    for (const char* key : {"rope_type", "type"})
    {
      if (!gives(key)) continue;
      const auto type = named(name + "." + key, value.at(key), rotary_type_names);
      if (!typed) scaling.type = type, typed = key;
      require<DataError>(type == scaling.type, file_, " has ", excerpt(value.at(typed)), " for ",
                         name, ".", typed, " and ", excerpt(value.at(key)), " for ", name, ".", key,
                         ", so it is unclear how rotary angles are scaled; remove the wrong one");
    }
    for (const auto& [entry, inner] : value.items())
    {
      const std::string full = name + "." + entry;
      if (inner.is_null() || entry == "rope_type" || entry == "type") continue;
      const auto is_it = [&entry = entry](const RotaryNumber& n) { return n.name == entry; };
      const auto* number = std::find_if(rotary_numbers.begin(), rotary_numbers.end(), is_it);
      if (entry == "rope_theta")
        set_once(base_, full, positive(full, inner));
      else if (entry == "partial_rotary_factor")
        set_once(fraction_, full, share(full, inner));
      else if (number != rotary_numbers.end() && counts(*number, scaling.type))
        scaling.*number->number = positive(full, inner);
      else
        throw ArgumentError{file_ + " has " + excerpt(full) + " = " + excerpt(inner) +
                            ", which cubist does not support, so its results would differ from the "
                            "model's; use a model without it"};
    }
    for (const RotaryNumber& number : rotary_numbers)
      require<DataError>(!counts(number, scaling.type) || gives(number.name), file_, " has no ",
                         name, ".", number.name, ", ", config_use.consequence, "; ",
                         config_use.if_damaged);
    require<DataError>(scaling_name_.empty() || scaling == config_.rotary_scaling, file_, " has ",
                       name, " and ", scaling_name_,
                       ", which scale rotary angles differently, so it is unclear how they are "
                       "scaled; remove the wrong one");
    scaling_name_ = name;
    config_.rotary_scaling = scaling;
  }
  [[nodiscard]] double share(const std::string& name, const Json& value) const
  {
    expect(value.is_number() && value.get<double>() > 0 && value.get<double>() <= 1, name, value,
           "a number above 0 and up to 1");
    return value.get<double>();
  }

  /// A number that several keys of config.json may set.
  struct SaidNumber
  {
    using Member = double TransformerConfig::*;

    Member number;
    const char* what;
    std::string name = {};  // the key that it was read from
  };
  void set_once(SaidNumber& said, const std::string& name, double value)
  {
    double& number = config_.*said.number;
    require<DataError>(said.name.empty() || value == number, file_, " has ", number, " for ",
                       said.name, " and ", value, " for ", name, ", so ", said.what,
                       " is unclear; remove the wrong one");
    said.name = name;
    number = value;
  }

  /// Returns the number of tokens that a token sees, or 0 if it sees all.
  [[nodiscard]] std::size_t read_window() const
  {
    const auto knows = [&](std::string_view name) { return knows_key(*family_, name); };
    if (!knows("sliding_window")) return 0;
    std::size_t window = json_->contains("sliding_window") ? 0 : family_->default_window;
    if (const Json* value = given("sliding_window"))
      window = whole("sliding_window", *value, largest_size);
    if (!knows("use_sliding_window")) return window;
    std::size_t first = default_window_layer;  // the first layer with a window
    if (const Json* value = given("max_window_layers"))
      first = whole("max_window_layers", *value, largest_size, 0);
    bool is_used = false;
    if (const Json* value = given("use_sliding_window"))
      is_used = truth("use_sliding_window", *value);
    bool slides = first < config_.layers;
    if (const Json* types = given("layer_types"))
    {
      expect(types->is_array() && types->size() == config_.layers, "layer_types", *types,
             "a list with an entry for each layer");
      slides = false;
      for (const Json& type : *types)
      {
        require_one_of("layer_types", type, Json::array({"full_attention", "sliding_attention"}));
        slides = slides || type == "sliding_attention";
      }
      require<DataError>(!slides || (is_used && window > 0), file_,
                         " has \"sliding_attention\" among layer_types, but ",
                         is_used ? "null for sliding_window" : "use_sliding_window is not true",
                         ", so it is unclear which tokens a token sees; correct the wrong one");
    }
    return is_used && slides ? window : 0;
  }

  const Json* json_;
  const std::string& file_;
  const ModelFamily* family_;
  TransformerConfig config_;
  SaidNumber base_{&TransformerConfig::rotary_base, "the base of the rotary angles"};
  SaidNumber fraction_{&TransformerConfig::rotary_fraction, "the share of a head that is rotated"};
  std::string scaling_name_;  // the key that set rotary_scaling
};

/// Writes the rotary settings under the keys of transformers 5 if `json` has them, and otherwise
/// under those of transformers 4, which version 5 reads, too.
inline void write_rotary(nlohmann::json& json, const TransformerConfig& c)
{
  using Json = nlohmann::json;
  const bool has_parameters =
      json.contains("rope_parameters") && json["rope_parameters"].is_object();
  for (const char* name :
       {"rope_theta", "partial_rotary_factor", "rope_scaling", "rope_parameters"})
    json.erase(name);
  Json scaling = Json::object();
  const RotaryScaling::Type type = c.rotary_scaling.type;
  scaling["rope_type"] = name_of(rotary_type_names, type);
  for (const RotaryNumber& number : rotary_numbers)
  {
    const double value = c.rotary_scaling.*number.number;
    const bool is_size =
        number.number == &RotaryScaling::positions && value < 0x1p53 && value == std::floor(value);
    if (counts(number, type))
      scaling[std::string{number.name}] =
          is_size ? Json(static_cast<std::uint64_t>(value)) : Json(value);
  }
  Json& numbers = has_parameters ? scaling : json;
  numbers["rope_theta"] = c.rotary_base;
  if (c.rotary_fraction != 1) numbers["partial_rotary_factor"] = c.rotary_fraction;
  if (has_parameters)
    json["rope_parameters"] = scaling;
  else if (type != RotaryScaling::Type::none)
    json["rope_scaling"] = scaling;
}

/// Writes how many tokens a token sees.
inline void write_window(nlohmann::json& json, const ModelFamily& family, std::size_t window)
{
  json.erase("layer_types");
  json["sliding_window"] = window > 0 ? nlohmann::json(window) : nlohmann::json{};
  if (!knows_key(family, "use_sliding_window")) return;
  json["use_sliding_window"] = window > 0;
  if (window > 0) json["max_window_layers"] = 0;
}

/// Sets the keys whose values differ from the source.
/// @param json the object to write, at first a copy of the source
/// @param said what the source says, or null if there is no source; then every key is set
inline void write_keys(nlohmann::json& json, const ModelFamily& family, const TransformerConfig& c,
                       const TransformerConfig* said)
{
  const auto differs = [&](auto member) { return said == nullptr || said->*member != c.*member; };
  // transformers treats some null keys differently from missing ones.
  const auto is_null = [&](std::string_view name) {
    const auto found = json.find(std::string{name});
    return found != json.end() && found->is_null();
  };
  const auto set = [&](std::string_view name, auto member) {
    if (differs(member) || is_null(name)) json[std::string{name}] = c.*member;
  };
  for (const auto& keys : {std::span<const ConfigKey>{common_keys}, family.keys, family.own_keys})
    for (const auto& [name, meaning] : keys)
    {
      const auto* size = std::get_if<SizeKey>(&meaning);
      if (size && differs(size->size)) json[std::string{name}] = c.*size->size;
      if (const auto* number = std::get_if<NumberKey>(&meaning)) set(name, number->number);
      if (const auto* flag = std::get_if<FlagKey>(&meaning)) set(name, flag->flag);
      const auto* bias = std::get_if<BiasKey>(&meaning);
      if (bias && (is_null(name) || !said || said->bias.*bias->layers != c.bias.*bias->layers))
        json[std::string{name}] = c.bias.*bias->layers;
      if (std::holds_alternative<OneOfKey>(meaning) && is_null(name)) json.erase(std::string{name});
      if (std::holds_alternative<ActivationKey>(meaning) &&
          (differs(&TransformerConfig::activation) || is_null(name)))
        json[std::string{name}] = name_of(activation_names, c.activation);
    }
  if (knows_key(family, "sliding_window") && differs(&TransformerConfig::window))
    write_window(json, family, c.window);
  if (!c.learned_positions &&
      (differs(&TransformerConfig::rotary_base) || differs(&TransformerConfig::rotary_scaling) ||
       differs(&TransformerConfig::rotary_fraction)))
    write_rotary(json, c);
}

/// Returns the JSON of a configuration, if this family can express it.
/// @param source the JSON of the file that it was read from, or null; its keys are kept
[[nodiscard]] inline std::optional<nlohmann::json>
config_json(const ModelFamily& family, TransformerConfig c, nlohmann::json source)
{
  c.end_ids.clear();  // config_text writes them
  if (source.is_object())
  {
    const auto said = ConfigReader{source, "the configuration's source"}.read();
    write_keys(source, family, c, &said);
  }
  else
  {
    source = {{"model_type", family.type}};
    if (family.names == &llama_names) source["hidden_act"] = "silu";
    write_keys(source, family, c, nullptr);
  }
  try
  {
    if (with_effect(ConfigReader{source, "the configuration"}.read()) != with_effect(c)) return {};
  }
  catch (const Error&)
  {
    return {};
  }
  return source;
}

}  // namespace detail

CUBIST_INLINE TransformerConfig parse_config(const std::string& text, const std::string& file)
{
  require_no_lfs_pointer(text, file);
  const auto json = detail::parse_object(text, file, detail::config_use);
  detail::ConfigReader reader{json, file};
  auto config = reader.read();
  config.source = {text, reader.family().type, {}};
  config.end_ids = detail::read_end_ids(json, file);
  return config;
}

CUBIST_INLINE TransformerConfig read_config(std::filesystem::path path)
{
  if (std::filesystem::is_directory(path)) path /= "config.json";
  auto config = parse_config(read_json_text(path.string(), detail::config_use), path.string());
  const auto beside = path.parent_path() / detail::generation_config_name;
  if (path.filename() != "config.json" || !std::filesystem::exists(beside)) return config;
  config.source.generation = read_json_text(beside.string(), detail::generation_use);
  const auto json = detail::parse_object(config.source.generation, beside.string());
  const auto ids = detail::read_end_ids(json, beside.string());
  if (!ids.empty()) config.end_ids = ids;
  return config;
}

CUBIST_INLINE std::string config_text(TransformerConfig c, const char* elements)
{
  c = c.completed();
  std::optional<nlohmann::json> json;
  const detail::ModelFamily* family = detail::find_family(c.source.family);
  if (family != nullptr)
    json = detail::config_json(
        *family, c,
        c.source.text.empty()
            ? nlohmann::json{}
            : parse_json(c.source.text, "the configuration's source", detail::config_use));
  for (const auto& other : detail::model_families)
    if (!json)
    {
      family = &other;
      json = detail::config_json(other, c, {});
    }
  require<ArgumentError>(
      json.has_value(), "got a transformer that is none of ", detail::family_names(),
      ", so Hugging Face has no configuration for it; save its parameters with save_safetensors");
  if (!json->contains("model_type")) (*json)["model_type"] = family->type;
  if (!json->contains("architectures"))
    (*json)["architectures"] = nlohmann::json::array({family->architecture});
  detail::write_end_ids(*json, c.end_ids);
  for (const char* type : {"torch_dtype", "dtype"})
    if (elements != nullptr && json->contains(type)) (*json)[type] = elements;
  return json->dump(2) + '\n';
}

}  // namespace cubist::CUBIST_ABI
