// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Matches names of parameters with patterns in options. A * stands for any characters, so
// "layers.0.*" matches all names that begin with "layers.0.".

#include <cstddef>
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
/// the end of that after a dot.
[[nodiscard]] inline bool matches_layer(std::string_view pattern, std::string_view weight)
{
  const std::string_view layer = weight.substr(0, weight.rfind('.'));
  return matches_name(pattern, layer) || matches_name("*." + std::string{pattern}, layer);
}

/// Whether a pattern matches a name.
using Matches = bool (*)(std::string_view pattern, std::string_view name);

/// Whether any of these patterns matches a name; marks those that do in `is_used`.
[[nodiscard]] inline bool any_matches(const std::vector<std::string>& patterns,
                                      std::vector<bool>& is_used, std::string_view name,
                                      Matches matches)
{
  bool any = false;
  for (std::size_t i = 0; i < patterns.size(); ++i)
    if (matches(patterns[i], name)) is_used[i] = any = true;
  return any;
}

/// Which layers get LoRA's matrices while a network is made. Only constructors that take
/// LoraOptions have one, so only they compile the function that adds the matrices
/// (nn/dense/lora.hpp).
template <class T, class M>
struct LoraRequest
{
  LoraOptions options;
  void (*add)(const Parameter<T, M>& weight, const LoraOptions& options);
  std::vector<bool> is_used;  // whether each name of the options matches a layer
};

/// Freezes parameters by their names while a network is made. With LoRA, freezes everything but
/// LoRA's matrices.
class Freezing
{
 public:
  /// @param names the names of the parameters to freeze, with * for any characters
  explicit Freezing(const std::vector<std::string>& names)
      : names_{names},
        is_used_(names.size(), false)
  {
  }

  /// Gives a layer LoRA's matrices unless `lora` is null, and freezes its parameters that have one
  /// of the names. Returns whether the layer has parameters and all of them are frozen.
  /// @throws ArgumentError for a layer that cannot do without a gradient
  template <class Layer>
  bool freeze(Layer& layer, const std::string& prefix,
              LoraRequest<typename Layer::Value, typename Layer::Mesh>* lora = nullptr)
  {
    if (names_.empty() && lora == nullptr) return false;
    Parameters<typename Layer::Value, typename Layer::Mesh> list;
    layer.append_parameters(list, prefix);
    if (lora != nullptr)
    {
      for (const auto& p : list)
        if (p.lora != nullptr &&
            any_matches(lora->options.layers, lora->is_used, p.name, matches_layer))
          lora->add(p, lora->options);
      list.clear();
      layer.append_parameters(list, prefix);
    }
    bool all = !list.empty();
    for (const auto& p : list)
    {
      const bool is_named = any_matches(names_, is_used_, p.name, matches_name) ||
                            (lora != nullptr && !is_of_lora(p.name));
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
  /// @param lora  a LoraRequest, or null
  /// @throws ArgumentError also for a name that no parameter or layer has so far
  template <class Make, class Lora>
  std::size_t freeze_layers(std::size_t count, const std::string& prefix, Make make, Lora* lora)
  {
    std::size_t first = 0;
    for (std::size_t i = 0; i < count; ++i)
      if (freeze(make(i), layer_name(i, prefix), lora) && first == i) first = i + 1;
    require_all_used();
    for (std::size_t i = 0; lora != nullptr && i < lora->is_used.size(); ++i)
      require<ArgumentError>(lora->is_used[i], "got \"", lora->options.layers[i],
                             "\" among the layers for LoRA, but no linear layer of the network "
                             "matches it; use names of weights in parameters() without "
                             "\".weight\", or their ends, with * for any characters");
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
  }

 private:
  std::vector<std::string> names_;
  std::vector<bool> is_used_;
};

}  // namespace detail

}  // namespace cubist::CUBIST_ABI
