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

/// Gives layers LoRA's matrices while a network is made. Only constructors that take LoraOptions
/// have one (nn/dense/lora.hpp).
template <class T, class M>
class LoraRequest
{
 public:
  virtual ~LoraRequest() = default;
  /// Gives the matrices to the weights of a layer whose names match.
  /// @param list  the parameters of the layer, which changes
  virtual void add_to(const Parameters<T, M>& list) = 0;
  /// @throws ArgumentError for a name that no layer has
  virtual void require_all_used() const = 0;
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
      lora->add_to(list);
      list.clear();
      layer.append_parameters(list, prefix);
    }
    bool all = !list.empty();
    for (const auto& p : list)
    {
      const bool is_named = has(p.name, lora != nullptr);
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
    if (lora != nullptr) lora->require_all_used();
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
  /// Whether a parameter is to be frozen.
  [[nodiscard]] bool has(const std::string& name, bool with_lora)
  {
    bool is_named = with_lora && !is_of_lora(name);
    for (std::size_t i = 0; i < names_.size(); ++i)
      if (matches_name(names_[i], name)) is_used_[i] = is_named = true;
    return is_named;
  }

  std::vector<std::string> names_;
  std::vector<bool> is_used_;
};

}  // namespace detail

}  // namespace cubist::CUBIST_ABI
