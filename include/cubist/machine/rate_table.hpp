// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The speed of local products as a function of their shape, measured on a grid of shapes and
// interpolated between them.
//
// The rate of a product of (m, n, k) is interpolated linearly in log m, log n and log k. Outside
// the grid, it is the rate of the nearest shape on the border. If only the peak is known, the rate
// of large products, a product also takes the time in which its elements are read and written,
// which is long for thin blocks (Williams, Waterman, Patterson, "Roofline", 2009).

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

#include "cubist/core/block.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/finite.hpp"

namespace cubist::CUBIST_ABI
{

/// The elements that C (m, n) += A (m, k) B (k, n) reads or writes. C is both read and written, and
/// A counts twice, because BLAS packs it across its rows. (Measured: a product with half the
/// columns takes longer than one with half the rows.)
[[nodiscard]] constexpr double touched_elements(ProductSize size)
{
  return 2 * double(size.m) * double(size.k) + double(size.k) * double(size.n) +
         2 * double(size.m) * double(size.n);
}

struct RateTable
{
  std::vector<double> m;  ///< the grid's values of m, ascending
  std::vector<double> n;  ///< the grid's values of n, ascending
  std::vector<double> k;  ///< the grid's values of k, ascending
  /// Operations per second; the rate of m[a], n[b], k[c] is at (a |n| + b) |k| + c.
  std::vector<double> rates;

  /// Whether the rates leave out the time in which elements are read and written.
  bool is_peak = false;

  /// Returns a table with one rate for all shapes.
  [[nodiscard]] static RateTable constant(double rate) { return {{1}, {1}, {1}, {rate}}; }
  /// Returns a table with the rate of large products.
  [[nodiscard]] static RateTable peak(double rate) { return {{1}, {1}, {1}, {rate}, true}; }

  /// The rate of the largest product, in operations per second.
  [[nodiscard]] double largest() const { return rates.back(); }

  /// The rate of a product of this size, in operations per second.
  /// @pre require_valid(*this)
  [[nodiscard]] double rate(ProductSize size) const
  {
    if (rates.size() == 1) return rates.front();
    const std::array<Cell, 3> cells{cell(m, double(size.m)), cell(n, double(size.n)),
                                    cell(k, double(size.k))};
    double sum = 0;
    for (unsigned corner = 0; corner < 8; ++corner)
    {
      std::array<std::size_t, 3> at{};
      double weight = 1;
      for (std::size_t i = 0; i < 3; ++i)
      {
        const bool upper = (corner >> i & 1U) != 0;
        at[i] = cells[i].below + (upper ? 1 : 0);
        weight *= upper ? cells[i].part : 1 - cells[i].part;
      }
      if (weight > 0) sum += weight * rates[(at[0] * n.size() + at[1]) * k.size() + at[2]];
    }
    return sum;
  }

  /// The time of a product, in seconds.
  /// @param element_seconds the time to read or write an element
  [[nodiscard]] double seconds(ProductSize size, double element_seconds) const
  {
    const double flops = 2 * double(size.m) * double(size.n) * double(size.k);
    if (flops == 0) return 0;
    return flops / rate(size) + (is_peak ? touched_elements(size) * element_seconds : 0);
  }

 private:
  /// A value between grid[below] and the next one; `part` of the way.
  struct Cell
  {
    std::size_t below;  ///< the index of the grid's point below
    double part;        ///< the distance from that point, as a part of the distance to the next
  };

  [[nodiscard]] static Cell cell(const std::vector<double>& grid, double value)
  {
    if (value <= grid.front()) return {0, 0};
    if (value >= grid.back()) return {grid.size() - 1, 0};
    const auto above = std::upper_bound(grid.begin(), grid.end(), value);
    const auto below = static_cast<std::size_t>(above - grid.begin()) - 1;
    return {below, std::log(value / grid[below]) / std::log(grid[below + 1] / grid[below])};
  }
};

/// Checks a table.
/// @throws ArgumentError unless each axis ascends and there is one positive rate for each shape
inline void require_valid(const RateTable& table)
{
  const auto positive = [](double x) { return x > 0 && is_finite(x); };
  for (const auto* axis : {&table.m, &table.n, &table.k})
    require<ArgumentError>(
        !axis->empty() && positive(axis->front()) &&
            std::adjacent_find(axis->begin(), axis->end(), std::greater_equal<>{}) == axis->end(),
        "got a table of rates with an axis of ", axis->size(),
        " sizes that do not ascend from a positive one, so rates between them are unknown; list "
        "each size once, in ascending order");
  const std::size_t shapes = table.m.size() * table.n.size() * table.k.size();
  require<ArgumentError>(table.rates.size() == shapes &&
                             std::all_of(table.rates.begin(), table.rates.end(), positive),
                         "got ", table.rates.size(), " rates for ", shapes,
                         " shapes, or a rate that is not positive, so the time of some products is "
                         "unknown; give one positive rate for each shape");
}

}  // namespace cubist::CUBIST_ABI
