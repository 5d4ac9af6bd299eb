// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The times of BLAS and memory on one core. From these figures a direct product chooses how ranks
// share the work, and the planner predicts its time.
//
// The unit of time is the time in which BLAS packs an element, averaged over both factors.
// C += A B with A (m, k) and B (k, n) takes
// m n k / products + (pack_a m + pack_b n) k + result m n units.
//
// The defaults are measurements of two machines (docs/decisions/0027-work-assignment.md);
// `cubist_bench machine` measures others.

#include <cstddef>
#include <type_traits>

#include "cubist/version.hpp"

namespace cubist::CUBIST_ABI
{

struct GemmRates
{
  double products = 56;            // multiplications with an addition, in one unit
  double result = 0.5;             // to read and write an element of C
  double pack_a_float = 1;         // to pack an element of A, of 4 bytes or fewer
  double pack_b_float = 1;         ///< to pack an element of B, of 4 bytes or fewer
  double pack_a_double = 1.5;      // few columns of B cost more than few rows of A
  double pack_b_double = 0.5;      ///< to pack an element of B, of 8 bytes or more
  double copy = 0.125;             // to copy a byte
  double window = 32768;           // to open and close a window, for each rank of the mesh
  double shared_core = 1.04;       // the factor for ranks that take turns on a core and its caches
  std::size_t panel_bytes = 4096;  // bytes of an operand's row that are copied at a time
  std::size_t cache_bytes = std::size_t{1} << 20;  // the size of a core's private cache

  friend constexpr bool operator==(const GemmRates&, const GemmRates&) = default;
};

/// Calls f(name, figure) for every figure.
template <class Rates, class F>
requires std::is_same_v<std::remove_const_t<Rates>, GemmRates>
constexpr void for_each_figure(Rates& gemm, F f)
{
  f("products", gemm.products);
  f("result", gemm.result);
  f("pack_a_float", gemm.pack_a_float);
  f("pack_b_float", gemm.pack_b_float);
  f("pack_a_double", gemm.pack_a_double);
  f("pack_b_double", gemm.pack_b_double);
  f("copy", gemm.copy);
  f("window", gemm.window);
  f("shared_core", gemm.shared_core);
  f("panel_bytes", gemm.panel_bytes);
  f("cache_bytes", gemm.cache_bytes);
}

}  // namespace cubist::CUBIST_ABI
