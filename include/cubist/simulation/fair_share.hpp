// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Max-min fairness: a user that wants less than an equal share of a resource gets what it wants,
// and the others share the rest equally.
//
// Source: Bertsekas, Gallager, "Data Networks", 2nd edition, 1992, section 6.5.2.

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "cubist/version.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Returns the most that one user gets if these parts of a resource are wanted, or the largest
/// number if all of them fit. It tolerates rounding errors.
/// @param wanted is sorted
[[nodiscard]] inline double fair_share(std::vector<double>& wanted)
{
  if (std::accumulate(wanted.begin(), wanted.end(), 0.0) <= 1 + 1e-9)
    return std::numeric_limits<double>::max();
  std::sort(wanted.begin(), wanted.end());
  double left = 1;
  auto others = double(wanted.size());
  for (const double w : wanted)
  {
    if (others == 1 || w > left / others) break;
    left -= w;
    --others;
  }
  return left / others;
}

}  // namespace cubist::CUBIST_ABI::detail
