// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The predicted time of a product on one core, computed from the machine's figures
// (machine/gemm_rates.hpp).

#include <algorithm>
#include <cstddef>

#include "cubist/core/block.hpp"
#include "cubist/machine/gemm_rates.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// The number of inner indices from which BLAS reaches its full speed.
inline constexpr std::size_t deep_panel = 1024;

/// `GemmRates` for elements of one size.
struct GemmTimes
{
  double pack_a = 1;
  double pack_b = 1;
  double copy = 1;
  /// The longest panel that is assembled, so that caches still hold it when it is multiplied.
  std::size_t panel = deep_panel;
  /// The number of elements that fit into a core's own cache.
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
  /// Returns the time of a product on one core, in units of `GemmRates`.
  [[nodiscard]] double operator()(ProductSize s) const
  {
    const auto m = static_cast<double>(s.m);
    const auto n = static_cast<double>(s.n);
    const auto k = static_cast<double>(s.k);
    return m * n * k / products + (pack_a * m + pack_b * n) * k + m * n * result;
  }
};

}  // namespace cubist::CUBIST_ABI::detail
