// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// How fast the cores multiply and copy with nothing else to do. The products and passes of a step
// are compared with this.

#include <cstddef>
#include <map>
#include <tuple>
#include <vector>

#include <cubist/core/block.hpp>
#include <cubist/engine/host/blas_threads.hpp>

#include "meter/all_cores.hpp"

namespace bench
{

/// The arguments of one product by BLAS.
struct BlasCall
{
  cubist::ProductSize size = {};
  bool transposes_a = false;
  bool transposes_b = false;
  std::size_t scalar_bytes = sizeof(float);
  bool is_syrk = false;  // whether B is A^T, and only one triangle is computed

  [[nodiscard]] double operations() const
  {
    const auto [m, n, k] = std::tuple{double(size.m), double(size.n), double(size.k)};
    return is_syrk ? m * (m + 1) * k : 2 * m * n * k;
  }
  /// A key for maps.
  [[nodiscard]] auto key() const
  {
    return std::tuple{size.m, size.n, size.k, transposes_a, transposes_b, scalar_bytes, is_syrk};
  }
  friend bool operator<(const BlasCall& a, const BlasCall& b) { return a.key() < b.key(); }
};

/// Measures the seconds of calls with nothing else to do, each when it is first asked for. One
/// thread for each slot runs the same call at the same time, on its own operands, so that cores
/// share memory and power as in a step.
class Alone
{
 public:
  /// @param slots  how many calls run at a time
  /// @param threads  the number of BLAS threads for each call
  explicit Alone(int slots, int threads = 1)
      : slots_{slots},
        threads_{threads},
        blas_{threads}
  {
  }

  /// Returns the seconds of a product in one slot.
  [[nodiscard]] double product(const BlasCall& call);
  /// Returns the seconds of a copy that reads half of this many bytes and writes the other half.
  /// The memory is in no cache: a step has touched more than a cache holds since it last touched
  /// its operands.
  [[nodiscard]] double copy(std::size_t bytes);

 private:
  int slots_;
  int threads_;
  AllCores cores_;
  cubist::BlasThreads blas_;
  std::map<BlasCall, double> products_;
  std::map<std::size_t, double> copies_;
  std::vector<std::vector<char>> from_;  // for each slot, the memory of copies
  std::vector<std::vector<char>> to_;
};

}  // namespace bench
