// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Names of parameters in options. A * stands for any characters, so "layers.0.*" stands for all
// names that begin with "layers.0.".

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "cubist/core/error.hpp"
#include "cubist/gradients/parameter.hpp"

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

/// What the names of layer i's parameters begin with: "layers.0."
[[nodiscard]] inline std::string layer_name(std::size_t i, const std::string& prefix = "layers.")
{
  return prefix + std::to_string(i) + ".";
}

/// Freezes parameters by their names while a network is made.
class Freezing
{
 public:
  /// @param names with * for any characters
  explicit Freezing(const std::vector<std::string>& names)
      : names_{names},
        is_used_(names.size(), false)
  {
  }

  /// Freezes the layer's parameters that have one of the names. Returns whether the layer has
  /// parameters, and all of them are frozen.
  /// @throws ArgumentError for a layer that cannot do without a gradient
  template <class Layer>
  bool freeze(Layer& layer, const std::string& prefix)
  {
    if (names_.empty()) return false;
    Parameters<typename Layer::Value, typename Layer::Mesh> list;
    layer.append_parameters(list, prefix);
    bool all = !list.empty();
    for (const auto& p : list)
    {
      bool is_named = false;
      for (std::size_t i = 0; i < names_.size(); ++i)
        if (matches_name(names_[i], p.name)) is_used_[i] = is_named = true;
      all = all && (is_named || p.frozen);
      if (!is_named) continue;
      require<ArgumentError>(
          p.freeze != nullptr, "got ", p.name,
          " to be frozen, but its layer computes the gradient in every backward; "
          "list the parameter by freezable_parameter in its append_parameters");
      p.freeze();
    }
    return all;
  }

  /// Makes and freezes layers in the order of a forward. Returns the first one that is not frozen
  /// as a whole, where a backward may end.
  /// @param make (i) makes layer i, and returns it
  template <class Make>
  std::size_t freeze_layers(std::size_t count, const std::string& prefix, Make make)
  {
    std::size_t first = 0;
    for (std::size_t i = 0; i < count; ++i)
      if (freeze(make(i), layer_name(i, prefix)) && first == i) first = i + 1;
    return first;
  }

  /// @throws ArgumentError for a name that no parameter has
  void require_all_used() const
  {
    for (std::size_t i = 0; i < names_.size(); ++i)
      require<ArgumentError>(is_used_[i], "got \"", names_[i],
                             "\" among the names of frozen parameters, which no parameter of the "
                             "network has, so it would be trained; use names of parameters(), with "
                             "* for any characters");
  }

 private:
  std::vector<std::string> names_;
  std::vector<bool> is_used_;
};

}  // namespace detail

}  // namespace cubist::CUBIST_ABI
