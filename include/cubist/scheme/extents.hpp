// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Functions that choose the extents of a scheme's mesh for a number of ranks.

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <limits>
#include <string>

#include "cubist/core/error.hpp"

namespace cubist::CUBIST_ABI::detail
{

[[nodiscard]] constexpr long power_of(long q, int power)
{
  long p = 1;
  for (int i = 0; i < power; ++i) p *= q;
  return p;
}

/// Returns the largest q with q^power <= n.
[[nodiscard]] constexpr int root(int n, int power)
{
  int q = 0;
  while (power_of(q + 1, power) <= n) ++q;
  return q;
}

/// Returns the largest divisor of n up to `most`.
/// @pre n >= 1, most >= 1
[[nodiscard]] constexpr int largest_divisor(int n, int most)
{
  int d = std::min(n, most);
  while (n % d != 0) --d;
  return d;
}

/// Returns the divisor of n that is nearest to `requested`; of two equally near ones, the lower.
/// @pre n >= 1
[[nodiscard]] constexpr int nearest_divisor(int n, int requested)
{
  for (int step = 0;; ++step)
  {
    const int below = std::min(requested, n) - step;
    const int above = std::min(requested, n) + step;
    if (below >= 1 && n % below == 0) return below;
    if (above <= n && n % above == 0) return above;
  }
}

/// Completes extents. Those that are left out (0) share the ranks that the others leave, as evenly
/// as possible, with the smaller extents first.
template <std::size_t n>
[[nodiscard]] constexpr std::array<int, n> fill_extents(std::array<int, n> extents, int ranks)
{
  int rest = ranks;
  int open = 0;
  for (const int e : extents)
    if (e == 0)
      ++open;
    else
      rest /= std::min(rest, e);
  for (int& e : extents)
    if (e == 0)
    {
      e = largest_divisor(rest, root(rest, open--));
      rest /= e;
    }
  return extents;
}

/// Returns extents that use all ranks and are close to those requested.
template <std::size_t n>
[[nodiscard]] constexpr std::array<int, n> nearest_extents(std::array<int, n> requested, int ranks)
{
  int rest = ranks;
  int* last = nullptr;
  bool open = false;
  for (int& e : requested)
  {
    if (e == 0)
    {
      open = true;
      continue;
    }
    e = nearest_divisor(rest, e);
    rest /= e;
    last = &e;
  }
  if (!open && last != nullptr) *last *= rest;
  return fill_extents(requested, ranks);
}

/// Returns "1 or 8 ranks": the numbers q^power around `ranks`.
[[nodiscard]] inline std::string nearest_powers(int ranks, int power)
{
  const auto raised = [power](int q) { return std::to_string(power_of(q, power)); };
  const int q = root(ranks, power);
  return (q > 0 ? raised(q) + " or " : "") + raised(q + 1) + " ranks";
}

/// Returns the number of ranks of a mesh with these extents, or any number above 2^31 if it is
/// larger than that.
/// @pre the extents are positive
template <class Extents = std::initializer_list<int>>
[[nodiscard]] constexpr long ranks_on(const Extents& extents)
{
  constexpr long most = std::numeric_limits<int>::max();
  long p = 1;
  for (const int e : extents) p = p > most ? p : p * e;
  return p;
}

/// Returns ", or 12 ranks", or nothing if a world cannot have that many.
[[nodiscard]] inline std::string or_ranks(long ranks)
{
  return ranks > std::numeric_limits<int>::max() ? "" : ", or " + std::to_string(ranks) + " ranks";
}

/// An extent that a user may leave out, with its name in `Extents`.
struct NamedExtent
{
  const char* name;
  int value;
};

/// Returns "{.q = 2, .d = 3}": the extents that are not left out, as the user gives them.
template <class Extents = std::initializer_list<NamedExtent>>
[[nodiscard]] std::string extents_text(const Extents& extents)
{
  std::string s;
  for (const auto& [name, value] : extents)
    if (value != 0)
      s += (s.empty() ? "." : ", .") + std::string{name} + " = " + std::to_string(value);
  return "{" + s + "}";
}

/// Checks that no extent is negative; 0 stands for one that is left out.
/// @throws MeshError for a negative extent
template <class Extents = std::initializer_list<NamedExtent>>
void require_extents(const char* scheme, int ranks, const Extents& extents)
{
  for (const auto& [name, value] : extents)
    require<MeshError>(
        value >= 0, scheme, " got ", name, " = ", value, " for ", ranks,
        " ranks, but an axis needs at least one rank; use a positive extent, or leave "
        "it out");
}

/// Returns the extents of a mesh whose axes may have any extents.
/// @param requested the extents, and their names in `Extents`
/// @throws MeshError unless their product is `ranks`
template <std::size_t n>
[[nodiscard]] std::array<int, n> free_extents(const char* scheme, int ranks,
                                              const std::array<NamedExtent, n>& requested)
{
  std::array<int, n> values{};
  std::array<int, n> at_least{};
  for (std::size_t i = 0; i < n; ++i)
  {
    require_extents(scheme, ranks, std::array{requested[i]});
    values[i] = requested[i].value;
    at_least[i] = std::max(1, values[i]);
  }
  const auto text = [&](std::array<int, n> extents) {
    auto named = requested;
    for (std::size_t i = 0; i < n; ++i) named[i].value = extents[i];
    return extents_text(named);
  };
  const auto extents = fill_extents(values, ranks);
  require<MeshError>(ranks_on(extents) == ranks, scheme, " got ", text(values), " for ", ranks,
                     " ranks, but the product of the extents must be the number of ranks, or some "
                     "would be left out or missing; use ",
                     text(nearest_extents(values, ranks)), or_ranks(ranks_on(at_least)));
  return extents;
}

}  // namespace cubist::CUBIST_ABI::detail
