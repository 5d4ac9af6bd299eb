// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// What BLAS and memory take on one core: the figures from which a direct product chooses how ranks
// share the work, and from which the planner predicts its time.
//
// The unit of time is that in which BLAS packs an element, the mean of both factors. C += A B with
// A (m, k), B (k, n) takes m n k / products + (pack_a m + pack_b n) k + result m n units.
//
// The defaults are measurements of two machines (docs/decisions/0027-work-assignment.md);
// `cubist_bench machine` measures others.

#include <algorithm>
#include <cstddef>

#include "cubist/core/block.hpp"

namespace cubist::CUBIST_ABI
{

struct GemmRates
{
  double products = 56;            // multiplications with an addition, in one unit
  double result = 0.5;             // reads and writes an element of C
  double pack_a_float = 1;         // packs an element of A, of 4 bytes or fewer
  double pack_b_float = 1;         ///< of packing B
  double pack_a_double = 1.5;      // few columns of B cost more than few rows of A
  double pack_b_double = 0.5;      ///< the same, of double
  double copy = 0.125;             // copies a byte
  double window = 32768;           // opens and closes a window, for each rank of the mesh
  double shared_core = 1.04;       // the factor for ranks that take turns on a core and its caches
  std::size_t panel_bytes = 4096;  // of a row of an operand that is copied together
  std::size_t cache_bytes = std::size_t{1} << 20;  // of a core's own

  friend constexpr bool operator==(const GemmRates&, const GemmRates&) = default;
};

namespace detail
{

/// With so many inner indices BLAS reaches its full speed.
inline constexpr std::size_t deep_panel = 1024;

/// `GemmRates` for elements of one size.
struct GemmTimes
{
  double pack_a = 1;
  double pack_b = 1;
  double copy = 1;
  /// The longest panel that is assembled, so that caches still hold it when it is multiplied.
  std::size_t panel = deep_panel;
  /// Elements that fit a core's own cache.
  std::size_t cached = std::size_t{1} << 18;
  double products = GemmRates{}.products;
  double result = GemmRates{}.result;

  [[nodiscard]] static GemmTimes of(std::size_t scalar_bytes, const GemmRates& rates = {})
  {
    const bool wide = scalar_bytes > 4;
    return {wide ? rates.pack_a_double : rates.pack_a_float,
            wide ? rates.pack_b_double : rates.pack_b_float,
            static_cast<double>(scalar_bytes) * rates.copy,
            std::min<std::size_t>(deep_panel, rates.panel_bytes / scalar_bytes),
            rates.cache_bytes / scalar_bytes,
            rates.products,
            rates.result};
  }
  /// The time of a product on one core, in units of `GemmRates`.
  [[nodiscard]] double operator()(ProductSize s) const
  {
    const auto m = static_cast<double>(s.m);
    const auto n = static_cast<double>(s.n);
    const auto k = static_cast<double>(s.k);
    return m * n * k / products + (pack_a * m + pack_b * n) * k + m * n * result;
  }
};

}  // namespace detail

}  // namespace cubist::CUBIST_ABI
