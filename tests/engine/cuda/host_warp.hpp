// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A warp for attention_kernels.hpp on the host: one thread that holds whole tiles. Elements are
// rounded to T where a device rounds them.

#include <algorithm>
#include <cstddef>
#include <vector>

namespace cubist::test
{

template <class T>
class HostWarp
{
 public:
  static constexpr unsigned count = 1;

  struct Left
  {
    T x[16][16] = {};
  };
  struct Right
  {
    T x[16][16] = {};  // (k, j)
  };
  struct Rows
  {
    float x[16];
  };
  template <unsigned n>
  struct Sums
  {
    float x[16][n] = {};
  };

  explicit HostWarp(unsigned block)
      : block_{block}
  {
  }

  [[nodiscard]] unsigned block() const { return block_; }
  [[nodiscard]] static unsigned thread() { return 0; }
  [[nodiscard]] static unsigned threads() { return 1; }
  [[nodiscard]] static unsigned index() { return 0; }
  static void wait() {}
  static void copy(T* to, const T* from, bool exists)
  {
    for (unsigned k = 0; k < 16 / sizeof(T); ++k) to[k] = exists ? from[k] : T{0.0F};
  }
  static void end_copies() {}
  template <unsigned n>
  static void wait_for_copies()
  {
  }

  [[nodiscard]] static Left left(const T* tile, unsigned ld)
  {
    Left a;
    each([&](unsigned i, unsigned k) { a.x[i][k] = tile[i * ld + k]; });
    return a;
  }
  template <unsigned n>
  [[nodiscard]] static Left left(const Sums<n>& sums, unsigned first)
  {
    Left a;
    each([&](unsigned i, unsigned k) { a.x[i][k] = T{sums.x[i][first + k]}; });
    return a;
  }
  [[nodiscard]] static Right right_of_rows(const T* tile, unsigned ld)
  {
    Right b;
    each([&](unsigned j, unsigned k) { b.x[k][j] = tile[j * ld + k]; });
    return b;
  }
  [[nodiscard]] static Right right_of_columns(const T* tile, unsigned ld)
  {
    Right b;
    each([&](unsigned k, unsigned j) { b.x[k][j] = tile[k * ld + j]; });
    return b;
  }
  template <unsigned n>
  static void multiply(Sums<n>& sums, unsigned first, const Left& a, const Right& b)
  {
    each([&](unsigned i, unsigned j) {
      for (unsigned k = 0; k < 16; ++k)
        sums.x[i][first + j] += static_cast<float>(a.x[i][k]) * static_cast<float>(b.x[k][j]);
    });
  }
  template <unsigned n, class F>
  static void for_each(Sums<n>& sums, F f)
  {
    for (unsigned i = 0; i < 16; ++i)
      for (unsigned j = 0; j < n; ++j) f(sums.x[i][j], i, j, i);
  }
  template <unsigned n, class F>
  static void for_each_pair(Sums<n>& x, Sums<n>& y, F f)
  {
    for (unsigned i = 0; i < 16; ++i)
      for (unsigned j = 0; j < n; ++j) f(x.x[i][j], y.x[i][j], i, j, i);
  }
  [[nodiscard]] static Rows rows(float value)
  {
    Rows all{};
    std::fill(std::begin(all.x), std::end(all.x), value);
    return all;
  }
  template <class F>
  static void for_each_row(F f)
  {
    for (unsigned i = 0; i < 16; ++i) f(i, i);
  }
  template <unsigned n>
  static void raise(Rows& largest, Sums<n>& sums)
  {
    for_each(sums, [&](float& x, unsigned i, unsigned, unsigned) {
      largest.x[i] = std::max(largest.x[i], x);
    });
  }
  static void add_up(Rows&) {}
  static void add_products(Rows& parts, const Left& a, const Left& b)
  {
    each([&](unsigned i, unsigned k) {
      parts.x[i] += static_cast<float>(a.x[i][k]) * static_cast<float>(b.x[i][k]);
    });
  }
  template <unsigned n>
  static void store(const Sums<n>& sums, T* out, std::size_t ld, std::size_t valid)
  {
    for (unsigned i = 0; i < std::min<std::size_t>(16, valid); ++i)
      for (unsigned j = 0; j < n; ++j) out[i * ld + j] = T{sums.x[i][j]};
  }

 private:
  template <class F>
  static void each(F f)
  {
    for (unsigned i = 0; i < 16; ++i)
      for (unsigned k = 0; k < 16; ++k) f(i, k);
  }

  unsigned block_;
};

/// Runs an attention kernel for all its blocks.
template <class T, class Kernel>
void run_on_host(const Kernel& kernel)
{
  std::vector<T> shared(Kernel::shared_elements());
  const auto blocks = static_cast<unsigned>(kernel.blocks(16 * HostWarp<T>::count));
  for (unsigned block = 0; block < blocks; ++block) kernel.run(HostWarp<T>{block}, shared.data());
}

}  // namespace cubist::test
