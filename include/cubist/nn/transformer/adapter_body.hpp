// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The functions of adapter.hpp that the compiled library contains.

#include <algorithm>
#include <array>
#include <string_view>

#include <nlohmann/json.hpp>

#include "cubist/core/json.hpp"
#include "cubist/nn/transformer/adapter.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

inline constexpr JsonUse adapter_use{"so nothing is known about the adapter",
                                     "give the folder of an adapter of PEFT",
                                     "take a fresh copy of it"};

/// A key, and the only values that cubist accepts for it.
struct AdapterKey
{
  std::string_view name;
  const char* values;  ///< a JSON list; null stands for a missing key
};
inline constexpr auto adapter_keys = std::to_array<AdapterKey>({
    {"peft_type", R"(["LORA"])"},
    {"bias", R"(["none"])"},
    {"use_dora", "[false]"},
    {"rank_pattern", "[{}]"},
    {"alpha_pattern", "[{}]"},
    {"modules_to_save", "[[]]"},
    {"layers_to_transform", "[[]]"},
    {"layers_pattern", "[[]]"},
    {"exclude_modules", "[[]]"},
    {"layer_replication", "[[]]"},
    {"trainable_token_indices", "[[], {}]"},
    {"target_parameters", "[[]]"},
    {"megatron_config", "[{}]"},
    {"loftq_config", "[{}]"},
    {"eva_config", "[{}]"},
    {"corda_config", "[{}]"},
    {"arrow_config", "[{}]"},
    {"lora_bias", "[false]"},
    {"use_qalora", "[false]"},
    {"alora_invocation_tokens", "[[]]"},
    {"ensure_weight_tying", "[false]"},
    // With other values, PEFT changes the model's weights, too.
    {"init_lora_weights", R"([true, false, "gaussian"])"},
});
/// Keys that are read, and keys that do not affect what an adapter computes.
inline constexpr auto adapter_keys_without_values = std::to_array<std::string_view>(
    {"r", "lora_alpha", "lora_dropout", "use_rslora", "target_modules", "task_type", "auto_mapping",
     "base_model_name_or_path", "revision", "inference_mode", "fan_in_fan_out", "megatron_core",
     "qalora_group_size", "runtime_config", "peft_version"});

/// The names of a transformer's linear layer in cubist and in transformers.
struct NamedLayer
{
  std::string ours;
  std::string theirs;

  /// The last part of the name, which target_modules may list.
  [[nodiscard]] std::string end() const { return theirs.substr(theirs.rfind('.') + 1); }
  [[nodiscard]] bool is_target(std::string_view target) const
  {
    return theirs == target || theirs.ends_with("." + std::string{target});
  }
};

[[nodiscard]] inline std::vector<NamedLayer> linear_layers(const TransformerConfig& config)
{
  const TensorNames& names = tensor_names(config);
  std::vector<NamedLayer> all;
  for (std::size_t i = 0; i < config.layers; ++i)
    for (const TensorName& name : names.in_layer)
    {
      const std::string_view ours = name.ours;
      if (ours.ends_with("norm.")) continue;
      const auto without_dot = [](std::string_view text) {
        return std::string{text.substr(0, text.size() - 1)};
      };
      const auto number = std::to_string(i) + ".";
      all.push_back({"layers." + number + without_dot(ours),
                     names.layers + number + without_dot(name.theirs)});
    }
  return all;
}

/// Returns the value of a key, or `missing` if there is none.
/// @throws DataError if the value has another type
template <class V>
[[nodiscard]] V adapter_value(const nlohmann::json& json, const char* key, V missing,
                              const std::string& file)
{
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return missing;
  require<DataError>(json_holds<V>(*found), file, " has \"", key, "\": ", excerpt(*found),
                     ", so the adapter's sizes are unknown; take the adapter_config.json "
                     "that PEFT has written");
  return found->template get<V>();
}

/// @throws DataError if a key is unknown, or its value asks for what cubist does not support
inline void check_adapter_keys(const nlohmann::json& json, const std::string& file)
{
  for (const auto& [key, value] : json.items())
  {
    const auto* known = std::ranges::find(adapter_keys, key, &AdapterKey::name);
    if (known == adapter_keys.end())
    {
      require<DataError>(
          std::ranges::find(adapter_keys_without_values, key) != adapter_keys_without_values.end(),
          file, " has the key \"", key,
          "\", which cubist does not know, so the adapter might compute something else; remove the "
          "key if it changes nothing");
      continue;
    }
    const auto allowed = nlohmann::json::parse(known->values);
    require<DataError>(
        value.is_null() || std::ranges::find(allowed, value) != allowed.end(), file, " has \"", key,
        "\": ", excerpt(value),
        ", which cubist does not support, so the adapter would compute something else; use "
        "an adapter whose value is ",
        allowed.front().dump());
  }
}

/// Returns the layers that target_modules names.
/// @throws DataError for a name that no layer has
[[nodiscard]] inline std::vector<std::string> target_layers(const nlohmann::json& targets,
                                                            const TransformerConfig& config,
                                                            const std::string& file)
{
  const auto all = linear_layers(config);
  const bool is_all = targets.is_string() && targets.get<std::string>() == "all-linear";
  require<DataError>(is_all || (targets.is_array() && !targets.empty()), file,
                     " has \"target_modules\": ", excerpt(targets),
                     ", so the adapter's layers are unknown; write them as a list of names");
  std::vector<bool> is_target(all.size(), is_all);
  for (const auto& target : is_all ? nlohmann::json::array() : targets)
  {
    bool found = false;
    if (target.is_string())
      for (std::size_t i = 0; i < all.size(); ++i)
        if (all[i].is_target(target.get<std::string>())) found = is_target[i] = true;
    require<DataError>(
        found, file, " has ", excerpt(target),
        " among its \"target_modules\", but no linear layer in the blocks of this transformer "
        "has that name, so the adapter is for another model or another kind of "
        "layer; use an adapter of this model");
  }
  std::vector<std::string> layers;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (is_target[i]) layers.push_back(all[i].ours);
  return layers;
}

CUBIST_INLINE std::string adapter_config_text(const LoraOptions& options,
                                              const TransformerConfig& config,
                                              const std::string& base_model)
{
  std::set<std::string> names, ends, of_ends;
  for (const auto& layer : linear_layers(config))
    if (is_for(options, layer.ours))
    {
      names.insert(layer.theirs);
      ends.insert(layer.end());
    }
  for (const auto& layer : linear_layers(config))
    if (ends.contains(layer.end())) of_ends.insert(layer.theirs);
  const nlohmann::json json{{"peft_type", "LORA"},
                            {"task_type", "CAUSAL_LM"},
                            {"base_model_name_or_path",
                             base_model.empty() ? nlohmann::json{} : nlohmann::json(base_model)},
                            {"r", options.rank},
                            {"lora_alpha", options.alpha},
                            {"lora_dropout", options.dropout},
                            {"target_modules", of_ends == names ? ends : names},
                            {"use_rslora", options.rank_stabilized},
                            {"use_dora", false},
                            {"bias", "none"},
                            {"fan_in_fan_out", !tensor_names(config).transposed},
                            {"init_lora_weights", true},
                            {"modules_to_save", nlohmann::json{}},
                            {"inference_mode", true}};
  return json.dump(2) + "\n";
}

}  // namespace detail

CUBIST_INLINE LoraOptions parse_lora_options(std::string_view text, const std::string& file,
                                             const TransformerConfig& config)
{
  const nlohmann::json json = parse_json(text, file, detail::adapter_use);
  require<DataError>(
      json.is_object() && json.contains("peft_type"), file,
      " has no \"peft_type\", so it does not describe an adapter; give the folder of "
      "an adapter of PEFT");
  detail::check_adapter_keys(json, file);
  LoraOptions options;
  options.rank = detail::adapter_value<std::size_t>(json, "r", 8, file);
  options.alpha = detail::adapter_value<double>(json, "lora_alpha", 8, file);
  options.dropout = detail::adapter_value<double>(json, "lora_dropout", 0, file);
  options.rank_stabilized = detail::adapter_value<bool>(json, "use_rslora", false, file);
  require<DataError>(
      options.rank > 0 && options.rank <= detail::largest_size, file, " has \"r\": ", options.rank,
      ", so A and B would not be matrices; take the adapter_config.json that PEFT has written");
  require<DataError>(options.dropout >= 0 && options.dropout < 1, file,
                     " has \"lora_dropout\": ", options.dropout,
                     ", which is not a probability or drops everything; set it to a number in "
                     "[0, 1)");
  options.layers = detail::target_layers(json.value("target_modules", nlohmann::json{}),
                                         config.completed(), file);
  options.shared_input = config.learned_positions;
  return options;
}

CUBIST_INLINE LoraOptions read_lora_options(const std::filesystem::path& folder,
                                            const TransformerConfig& config)
{
  const auto file = (folder / detail::adapter_config_file).string();
  return parse_lora_options(read_json_text(file, detail::adapter_use), file, config);
}

}  // namespace cubist::CUBIST_ABI
