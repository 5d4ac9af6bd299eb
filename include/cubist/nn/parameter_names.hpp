// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Matches names of parameters with patterns in options. A * stands for any characters, so
// "layers.0.*" matches all names that begin with "layers.0.".

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cubist/core/error.hpp"
#include "cubist/gradients/parameter.hpp"
#include "cubist/model/lora_options.hpp"

namespace cubist::CUBIST_ABI
{

/// Whether a name matches a pattern, in which each * stands for any number of characters.
[[nodiscard]] inline bool matches_name(std::string_view pattern, std::string_view name)
{
  // After a mismatch the last * may stand for one more character.
  std::size_t p = 0, n = 0;
  std::size_t star = pattern.npos, taken = 0;
  while (n < name.size())
    if (p < pattern.size() && pattern[p] == '*')
    {
      star = p++;
      taken = n;
    }
    else if (p < pattern.size() && pattern[p] == name[n])
      ++p, ++n;
    else if (star != pattern.npos)
    {
      p = star + 1;
      n = ++taken;
    }
    else
      return false;
  return pattern.find_first_not_of('*', p) == pattern.npos;
}

namespace detail
{

/// The prefix of the names of layer i's parameters, such as "layers.0."
[[nodiscard]] inline std::string layer_name(std::size_t i, const std::string& prefix = "layers.")
{
  return prefix + std::to_string(i) + ".";
}

/// Whether a pattern selects a weight for LoRA: it matches the weight's name without ".weight", or
/// what follows one of the dots in it.
[[nodiscard]] inline bool matches_layer(std::string_view pattern, std::string_view weight)
{
  const std::string_view layer = weight.substr(0, weight.rfind('.'));
  return matches_name(pattern, layer) || matches_name("*." + std::string{pattern}, layer);
}

/// Freezes parameters by their names while a network is made. With LoRA, gives layers LoRA's
/// matrices, and freezes everything else.
class Freezing
{
 public:
  /// @param names the names of the parameters to freeze, with * for any characters
  explicit Freezing(const std::vector<std::string>& names,
                    const std::optional<LoraOptions>& lora = {})
      : names_{names},
        is_used_(names.size(), false),
        lora_{lora}
  {
    if (!lora_) return;
    lora_->check();
    has_layer_.resize(lora_->layers.size(), false);
  }

  /// Freezes the parameters of a layer that have one of the names. Returns whether the layer has
  /// parameters and all of them are frozen.
  /// @throws ArgumentError for a layer that cannot do without a gradient
  template <class Layer>
  bool freeze(Layer& layer, const std::string& prefix)
  {
    if (names_.empty() && !lora_) return false;
    if (lora_) add_lora(layer, prefix);
    Parameters<typename Layer::Value, typename Layer::Mesh> list;
    layer.append_parameters(list, prefix);
    bool all = !list.empty();
    for (const auto& p : list)
    {
      bool is_named = lora_ && !is_of_lora(p.name);
      for (std::size_t i = 0; i < names_.size(); ++i)
        if (matches_name(names_[i], p.name)) is_used_[i] = is_named = true;
      all = all && (is_named || p.frozen);
      if (!is_named) continue;
      require<ArgumentError>(
          p.freeze != nullptr, "got ", p.name,
          " to be frozen, but its layer computes the gradient in every backward pass; "
          "list the parameter with freezable_parameter in its append_parameters");
      p.freeze();
    }
    return all;
  }

  /// Makes and freezes layers in the order of a forward pass. Returns the number of the first one
  /// that is not frozen as a whole, where a backward pass may end.
  /// @param make  make(i) makes layer i, and returns it
  template <class Make>
  std::size_t freeze_layers(std::size_t count, const std::string& prefix, Make make)
  {
    std::size_t first = 0;
    for (std::size_t i = 0; i < count; ++i)
      if (freeze(make(i), layer_name(i, prefix)) && first == i) first = i + 1;
    return first;
  }

  /// @throws ArgumentError for a name that matches no parameter or layer
  void require_all_used() const
  {
    for (std::size_t i = 0; i < names_.size(); ++i)
      require<ArgumentError>(is_used_[i], "got \"", names_[i],
                             "\" among the names of frozen parameters, but no parameter of the "
                             "network matches it, so none would be frozen; use names of "
                             "parameters(), with * for any characters");
    for (std::size_t i = 0; i < has_layer_.size(); ++i)
      require<ArgumentError>(has_layer_[i], "got \"", lora_->layers[i],
                             "\" among the layers for LoRA, but no linear layer of the network "
                             "matches it; use names of weights in parameters() without "
                             "\".weight\", or their ends, with * for any characters");
  }

 private:
  /// Gives LoRA's matrices to the weights whose names match.
  template <class Layer>
  void add_lora(Layer& layer, const std::string& prefix)
  {
    Parameters<typename Layer::Value, typename Layer::Mesh> list;
    layer.append_parameters(list, prefix);
    for (const auto& p : list)
    {
      if (p.lora == nullptr) continue;
      bool matches = false;
      for (std::size_t i = 0; i < has_layer_.size(); ++i)
        if (matches_layer(lora_->layers[i], p.name)) has_layer_[i] = matches = true;
      if (matches) p.lora->add_lora(p.lora_weight, *lora_);
    }
  }

  std::vector<std::string> names_;
  std::vector<bool> is_used_;
  std::optional<LoraOptions> lora_;
  std::vector<bool> has_layer_;  // whether each pattern of `lora_` matches a layer
};

}  // namespace detail

}  // namespace cubist::CUBIST_ABI
