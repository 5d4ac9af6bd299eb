// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The functions of parameter_groups.hpp that are in the compiled library.

#include "cubist/nn/optimizers/parameter_groups.hpp"

namespace cubist::CUBIST_ABI::detail
{

CUBIST_INLINE void ParameterSets::sort(std::span<const GroupedParameter> parameters,
                                       const std::vector<ParameterGroup>& groups, bool separate)
{
  for (const ParameterGroup& group : groups)
  {
    require<ArgumentError>(!group.names.empty(),
                           "got a group of parameters without names, so it would change nothing; "
                           "give it names of parameters(), with * for any characters");
    for (const std::string& pattern : group.names)
    {
      bool found = false;
      for (const auto& p : parameters) found = found || matches_name(pattern, p.name);
      require<ArgumentError>(
          found, "got \"", pattern, "\" among the names of a group of parameters, but ",
          parameters.empty()
              ? "there are no parameters"
              : "none matches it: the first one is " + std::string{parameters.front().name},
          ", so the group would change nothing; use names of parameters(), with * for any "
          "characters");
    }
  }
  std::vector<bool> has_some(groups.size());
  for (const auto& p : parameters)
  {
    Set wanted;
    wanted.decays = p.decays || !separate;
    for (std::size_t g = 0; !wanted.group && g < groups.size(); ++g)
      for (const std::string& pattern : groups[g].names)
        if (matches_name(pattern, p.name)) wanted.group = g, has_some[g] = true;
    if (p.frozen) continue;
    std::size_t s = 0;
    while (s < sets_.size() && !(sets_[s] == wanted)) ++s;
    if (s == sets_.size()) sets_.push_back(wanted);
    set_of_.push_back(s);
  }
  for (std::size_t g = 0; g < groups.size(); ++g)
    require<ArgumentError>(has_some[g], "got a group of \"", groups[g].names.front(),
                           "\" whose parameters are all in groups before it, so it would change "
                           "nothing; put it before them");
}

}  // namespace cubist::CUBIST_ABI::detail
