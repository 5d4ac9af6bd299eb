// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Helpers of the schemes that derive a mesh from a number of ranks.

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <string>

#include "cubist/core/error.hpp"

namespace cubist::detail
{

/// The largest q with q^power <= n.
[[nodiscard]] constexpr int root(int n, int power)
{
  const auto fits = [&](long q) {
    long p = 1;
    for (int i = 0; i < power; ++i) p *= q;
    return p <= n;
  };
  int q = 0;
  while (fits(q + 1)) ++q;
  return q;
}

/// The largest divisor of n that is no greater than its square root.
[[nodiscard]] constexpr int middle_divisor(int n)
{
  int d = root(n, 2);
  while (d > 1 && n % d != 0) --d;
  return d;
}

/// The divisor of n that is nearest to `wish`, the lower one of two.
/// @pre n >= 1
[[nodiscard]] constexpr int nearest_divisor(int n, int wish)
{
  for (int step = 0;; ++step)
  {
    const int below = std::min(wish, n) - step;
    const int above = std::min(wish, n) + step;
    if (below >= 1 && n % below == 0) return below;
    if (above <= n && n % above == 0) return above;
  }
}

/// "1 or 8 ranks": the numbers q^power around `ranks`.
[[nodiscard]] inline std::string nearest_powers(int ranks, int power)
{
  const auto raised = [&](int q) {
    long p = 1;
    for (int i = 0; i < power; ++i) p *= q;
    return std::to_string(p);
  };
  const int q = root(ranks, power);
  return (q > 0 ? raised(q) + " or " : "") + raised(q + 1) + " ranks";
}

/// The ranks on axes of these extents; any number above 2^31 if there are more.
/// @pre the extents are positive
[[nodiscard]] constexpr long ranks_on(std::initializer_list<int> extents)
{
  constexpr long most = std::numeric_limits<int>::max();
  long p = 1;
  for (const int e : extents) p = p > most ? p : p * e;
  return p;
}

/// ", or 12 ranks", and nothing if that is more than a world may have.
[[nodiscard]] inline std::string or_ranks(long ranks)
{
  return ranks > std::numeric_limits<int>::max() ? "" : ", or " + std::to_string(ranks) + " ranks";
}

/// An extent that a user may leave out, by the name that it has in `Extents`.
struct NamedExtent
{
  const char* name;
  int value;
};

/// "{.q = 2, .d = 3}": the extents that are not left out, as a user writes them.
[[nodiscard]] inline std::string written(std::initializer_list<NamedExtent> extents)
{
  std::string s;
  for (const auto& [name, value] : extents)
    if (value != 0)
      s += (s.empty() ? "." : ", .") + std::string{name} + " = " + std::to_string(value);
  return "{" + s + "}";
}

/// @throws MeshError for an extent below 0; 0 stands for one that is left out
inline void require_extents(const char* scheme, int ranks,
                            std::initializer_list<NamedExtent> extents)
{
  for (const auto& [name, value] : extents)
    require<MeshError>(value >= 0, scheme, " got ", name, " = ", value, " for ", ranks,
                       " ranks, but an axis has at least one rank; use a positive extent, or leave "
                       "it out");
}

}  // namespace cubist::detail
