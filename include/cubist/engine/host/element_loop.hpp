// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The host's loop over the elements of rows: f(a[j], b[j], …) for j in [0, n). It is compiled and
// vectorised for several instruction sets, and the best one that the processor has is selected at
// run time.
//
// The loop runs over blocks of a fixed length. The remainder is copied into a block, so the same
// instructions compute every element, and its bits do not depend on its place in a row, however the
// compiler contracts products and sums. The loop prefetches the blocks ahead: f is often so long
// that the processor's own look-ahead does not reach the next loads.

#include <algorithm>
#include <array>
#include <cstddef>
#include <type_traits>

#include "cubist/engine/host/targets.hpp"

#if defined __clang__
// clang warns about loops that it cannot vectorise, such as loops over complex and 16-bit numbers.
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wpass-failed"
#endif

namespace cubist::CUBIST_ABI::detail
{

/// Elements of a block: four AVX-512 vectors of double.
inline constexpr std::size_t block_length = 32;

/// Prefetches a block far enough ahead to hide the latency of memory.
template <class T>
[[gnu::always_inline]] inline void prefetch(T* block)
{
  constexpr std::size_t line = 64;
  constexpr std::size_t ahead = 2048;
  const auto* p = reinterpret_cast<const char*>(block) + ahead;
  for (std::size_t i = 0; i < block_length * sizeof(T); i += line)
    __builtin_prefetch(p + i, std::is_const_v<T> ? 0 : 1);
}

/// Calls f(m[j]…) for j in [0, blocks * block_length).
struct ElementBlocks
{
  template <class F, class... T>
  [[gnu::always_inline]] void operator()(F f, std::size_t blocks, T*... m) const
  {
    for (; blocks > 0; --blocks)
    {
      (prefetch(m), ...);
      CUBIST_INDEPENDENT
      for (std::size_t j = 0; j < block_length; ++j) f(m[j]...);
      ((m += block_length), ...);
    }
  }
};

/// The remainder of a row, copied into a block and padded with copies of its last element.
template <class T>
class LastBlock
{
 public:
  LastBlock(T* row, std::size_t n)
      : row_{row},
        n_{n}
  {
    std::copy_n(row, n, block_.begin());
    std::fill(block_.begin() + static_cast<std::ptrdiff_t>(n), block_.end(), row[n - 1]);
  }
  T* data() { return block_.data(); }
  void write_back() const
  {
    if constexpr (!std::is_const_v<T>) std::copy_n(block_.begin(), n_, row_);
  }

 private:
  alignas(64) std::array<std::remove_const_t<T>, block_length> block_;
  T* row_;
  std::size_t n_;
};

/// The loop as a function that is not inline, so that the compiled library can contain it.
template <class F, class... T>
struct ElementLoop
{
  /// Calls f(m[j]…) for j in [0, n), on a target that this processor supports.
  static void run(Target target, std::size_t n, F f, T*... m);
};

template <class F, class... T>
void ElementLoop<F, T...>::run(Target target, std::size_t n, F f, T*... m)
{
  if (n == 0) return;
  const std::size_t whole = n - n % block_length;
  if (whole > 0) call_on(target, ElementBlocks{}, f, whole / block_length, m...);
  if (whole == n) return;
  [&](LastBlock<T>&&... last) {
    call_on(target, ElementBlocks{}, f, std::size_t{1}, last.data()...);
    (last.write_back(), ...);
  }(LastBlock<T>{m + whole, n - whole}...);
}

/// Calls f(m[j]…) for j in [0, n), on a target that this processor supports. f may write to
/// elements that are not const. Rows may be identical, but must not overlap otherwise.
template <class F, class... T>
void for_elements(Target target, std::size_t n, F f, T*... m)
{
  ElementLoop<F, T...>::run(target, n, f, m...);
}

template <class F, class... T>
void for_elements(std::size_t n, F f, T*... m)
{
  ElementLoop<F, T...>::run(best_target(), n, f, m...);
}

/// out = f(in…)
template <class F>
struct Assign
{
  F f;
  template <class T, class... In>
  void operator()(T& out, const In&... in) const
  {
    out = f(in...);
  }
};

/// out = f(in…), sum += out
template <class F>
struct AssignAndAdd
{
  F f;
  template <class T, class... In>
  void operator()(T& out, T& sum, const In&... in) const
  {
    const T value = f(in...);
    out = value;
    sum += value;
  }
};

}  // namespace cubist::CUBIST_ABI::detail

#if defined __clang__
#pragma clang diagnostic pop
#endif
