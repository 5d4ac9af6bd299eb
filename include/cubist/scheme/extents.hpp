// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Helpers of the schemes that derive a mesh from a number of ranks.

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

/// "1, 8 or 27 ranks": the numbers q^3 around `ranks`.
[[nodiscard]] inline std::string nearest_powers(int ranks, int power)
{
  const auto raised = [&](int q) {
    int p = 1;
    for (int i = 0; i < power; ++i) p *= q;
    return std::to_string(p);
  };
  const int q = root(ranks, power);
  return (q > 0 ? raised(q) + " or " : "") + raised(q + 1) + " ranks";
}

/// @throws MeshError for an extent below 0; 0 stands for one that is left out
inline void require_extent(const char* scheme, const char* name, int extent)
{
  require<MeshError>(extent >= 0, "got ", name, " = ", extent, " for ", scheme,
                     ", but an axis has at least one rank; use a positive extent, or leave it out");
}

}  // namespace cubist::detail
