// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Groups of parameters that an optimizer updates with their own learning rate and weight decay,
// like PyTorch's parameter groups. A group lists its parameters by name:
//
//   AdamW optimizer{model.parameters(),
//                   {.learning_rate = 1e-4,
//                    .groups = {{.names = {"layers.0.*", "layers.1.*"}, .learning_rate = 1e-5},
//                               {.names = {"embedding.weight"}, .weight_decay = 0}}}};
//
// A * stands for any characters. A parameter is in the first group that matches its name, or in
// none. All parameters of a group may be frozen, but a group that would change nothing even if none
// were frozen is an error.

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cubist/core/compiled.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/instances.hpp"
#include "cubist/gradients/parameter.hpp"
#include "cubist/nn/parameter_names.hpp"

namespace cubist::CUBIST_ABI
{

/// Some parameters, and how an optimizer updates them.
struct ParameterGroup
{
  /// The names of the group's parameters, with * for any characters.
  std::vector<std::string> names = {};
  /// Their learning rate; by default the optimizer's. As in PyTorch, a schedule multiplies it by
  /// the same factor as the optimizer's rate.
  std::optional<double> learning_rate = {};
  /// Their weight decay; by default the optimizer's, or 0 for the biases and norms of a
  /// transformer.
  std::optional<double> weight_decay = {};
  /// For Muon only: whether it orthogonalizes their momentum, or leaves them to its AdamW; by
  /// default it takes the matrices of layers.
  std::optional<bool> muon = {};
};

namespace detail
{

/// The properties of a parameter that decide how an optimizer updates it.
struct GroupedParameter
{
  std::string_view name;
  bool decays = true;
  bool frozen = false;
};

/// Sets of parameters that an optimizer updates in the same way. Set 0 contains those that are in
/// no group and decay; it may be empty.
class ParameterSets
{
 public:
  /// @param separate whether parameters that decay and those that do not are in different sets
  /// @throws ArgumentError for a name that matches no parameter, and for a group that gets none
  ParameterSets(std::span<const GroupedParameter> parameters,
                const std::vector<ParameterGroup>& groups, bool separate)
      : groups_{groups.size()},
        sets_{Set{}}
  {
    sort(parameters, groups, separate);
  }
  /// The number of sets.
  [[nodiscard]] std::size_t size() const { return sets_.size(); }
  /// The set of the i-th parameter that is not frozen.
  [[nodiscard]] std::size_t set_of(std::size_t i) const { return set_of_[i]; }

  /// The group of a set, or null for parameters in no group.
  /// @param groups the constructor's groups, whose rates may have changed
  /// @throws ArgumentError for a different number of groups
  [[nodiscard]] const ParameterGroup* group(std::size_t set,
                                            const std::vector<ParameterGroup>& groups) const
  {
    require<ArgumentError>(
        groups.size() == groups_, "got ", groups.size(),
        " groups of parameters in the options of an optimizer that was made for ", groups_,
        ", so it is unknown which group a parameter is in; make a new optimizer");
    return sets_[set].group ? &groups[*sets_[set].group] : nullptr;
  }
  /// Whether the optimizer's weight decay applies to a set whose group sets none.
  [[nodiscard]] bool decays(std::size_t set) const { return sets_[set].decays; }

 private:
  struct Set
  {
    std::optional<std::size_t> group = {};
    bool decays = true;

    friend bool operator==(const Set&, const Set&) = default;
  };

  void sort(std::span<const GroupedParameter> parameters, const std::vector<ParameterGroup>& groups,
            bool separate);

  std::size_t groups_;
  std::vector<Set> sets_;
  std::vector<std::size_t> set_of_;
};

/// Sorts parameters into sets.
/// @throws what the constructor of ParameterSets throws
template <class T, class M>
ParameterSets sets_of(const Parameters<T, M>& parameters, const std::vector<ParameterGroup>& groups,
                      bool separate)
{
  std::vector<GroupedParameter> all;
  all.reserve(parameters.size());
  for (const auto& p : parameters) all.push_back({p.name, p.decays, p.frozen});
  return {all, groups, separate};
}

}  // namespace detail

/// Lists the instances in the compiled library (cubist/core/instances.hpp).
#define CUBIST_GROUPS_INSTANCES(prefix, M, T) CUBIST_INSTANCE(prefix, detail::sets_of<T, M>)
CUBIST_FOR_TRAINED_MESHES(CUBIST_GROUPS_INSTANCES)

}  // namespace cubist::CUBIST_ABI

#include CUBIST_BODY("cubist/nn/optimizers/parameter_groups_body.hpp")
