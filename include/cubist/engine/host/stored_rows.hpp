// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Products of rows of float or double with rows of the same type, and of rows of float with rows of
// 16-bit or 8-bit elements. They use instructions for these types that compilers do not find in
// loops.
//
//   Y (m, n) = alpha X (m, k) B^T + beta Y,    B (n, k)
//   C (m, n) += alpha A (m, k) B,              B (k, n), of 16-bit elements
//
// A few rows of B are read at once, and converted once for up to four rows of X or A. These rows
// are far apart, so that each is part of a stream of memory that is read in sequence. A scalar
// product is summed in as many parts as 64 bytes have elements of X: part p sums the elements p,
// p + 16, … of float. Then the second half of the parts is added to the first half until one part
// is left. So a result depends only on its two rows, and is the same with AVX2 and AVX-512.
//
// Measured: GB/s of B for one row of X and weights of GPT-2 medium's shapes, on an EPYC (Zen 5,
// AVX-512); in parentheses with four neighbouring rows of B at a time:
//
//   B          1 core    a copy by 1 core    2 cores    a copy by 2 cores
//   bfloat16   34 (29)   37                  41 (35)    39
//   q8         34 (26)   40                  42 (37)    43

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/core/stored_weights.hpp"
#include "cubist/engine/host/targets.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Rows of B. If W is an integer, each block of 32 elements has a scale.
template <class W>
struct StoredRows
{
  MatrixView<const W> elements;
  MatrixView<const half> scales = {};

  static constexpr bool has_scales = std::is_same_v<W, std::int8_t>;
};

#ifdef CUBIST_X86_TARGETS

// They are written as instructions, because <immintrin.h> takes a second to compile.

/// The memory of as many elements as a register has lanes.
template <std::size_t lanes, class W>
[[gnu::always_inline]] inline const W (&lanes_at(const W* p))[lanes]
{
  return *reinterpret_cast<const W(*)[lanes]>(p);
}

/// A register of `bytes` bytes.
template <class T, std::size_t bytes>
struct RegisterOf
{
  using type [[gnu::vector_size(bytes)]] = T;
};

/// Defines the registers of an instruction set.
/// @param for_one, for_four  rows of B at a time, for one row of X and for four
#define CUBIST_REGISTERS(name, target, size, for_one, for_four)                                    \
  struct name                                                                                      \
  {                                                                                                \
    static constexpr std::size_t bytes = size;                                                     \
    static constexpr std::size_t together[] = {for_one, for_four};                                 \
    template <class T>                                                                             \
    using Register = typename RegisterOf<T, bytes>::type;                                          \
    using Vector = Register<float>;                                                                \
    using Bits = Register<std::uint32_t>;                                                          \
    using Register4 = typename RegisterOf<float, 16>::type;                                        \
    static constexpr std::size_t lanes = bytes / sizeof(float);                                    \
                                                                                                   \
    template <std::floating_point T>                                                               \
    [[gnu::always_inline, target]] static auto load(const T* p)                                    \
    {                                                                                              \
      Register<T> v;                                                                               \
      __builtin_memcpy(&v, p, sizeof v);                                                           \
      return v;                                                                                    \
    }                                                                                              \
    [[gnu::always_inline, target]] static Vector load(const bfloat16* p)                           \
    {                                                                                              \
      Bits bits;                                                                                   \
      asm("vpmovzxwd {%1, %0|%0, %1}" : "=v"(bits) : "m"(lanes_at<lanes>(p)));                     \
      return reinterpret_cast<Vector>(bits << 16);                                                 \
    }                                                                                              \
    [[gnu::always_inline, target]] static Vector load(const half* p)                               \
    {                                                                                              \
      Vector v;                                                                                    \
      asm("vcvtph2ps {%1, %0|%0, %1}" : "=v"(v) : "m"(lanes_at<lanes>(p)));                        \
      return v;                                                                                    \
    }                                                                                              \
    [[gnu::always_inline, target]] static Register4 load_four(const half* p)                       \
    {                                                                                              \
      Register4 v;                                                                                 \
      asm("vcvtph2ps {%1, %0|%0, %1}" : "=v"(v) : "m"(lanes_at<4>(p)));                            \
      return v;                                                                                    \
    }                                                                                              \
    [[gnu::always_inline, target]] static float load_one(const half* p)                            \
    {                                                                                              \
      std::uint16_t bits;                                                                          \
      __builtin_memcpy(&bits, p, sizeof bits);                                                     \
      const typename RegisterOf<std::uint32_t, 16>::type all = {bits};                             \
      Register4 v;                                                                                 \
      asm("vcvtph2ps {%1, %0|%0, %1}" : "=v"(v) : "v"(all));                                       \
      return v[0];                                                                                 \
    }                                                                                              \
    [[gnu::always_inline, target]] static Vector load(const std::int8_t* p)                        \
    {                                                                                              \
      Bits integers;                                                                               \
      Vector v;                                                                                    \
      asm("vpmovsxbd {%1, %0|%0, %1}" : "=v"(integers) : "m"(lanes_at<lanes>(p)));                 \
      asm("vcvtdq2ps {%1, %0|%0, %1}" : "=v"(v) : "v"(integers));                                  \
      return v;                                                                                    \
    }                                                                                              \
    template <class T, class V>                                                                    \
    [[gnu::always_inline, target]] static void store(T* p, V v)                                    \
    {                                                                                              \
      __builtin_memcpy(p, &v, sizeof v);                                                           \
    }                                                                                              \
    [[gnu::always_inline, target]] static Vector all(float x) { return x - Vector{}; }             \
    /* Keeps a sum in a register, even if it is taken apart later. */                              \
    template <class V>                                                                             \
    [[gnu::always_inline, target]] static V in_register(V v)                                       \
    {                                                                                              \
      asm("" : "+v"(v));                                                                           \
      return v;                                                                                    \
    }                                                                                              \
    /* Adds the second half of n elements to the first half until one is left. */                  \
    template <std::size_t n, class T>                                                              \
    [[gnu::always_inline, target]] static T sum_of(const T* p)                                     \
    {                                                                                              \
      if constexpr (n == 1)                                                                        \
        return *p;                                                                                 \
      else                                                                                         \
      {                                                                                            \
        using Half = typename RegisterOf<T, n / 2 * sizeof(T)>::type;                              \
        Half first, second;                                                                        \
        __builtin_memcpy(&first, p, sizeof first);                                                 \
        __builtin_memcpy(&second, p + n / 2, sizeof second);                                       \
        first += second;                                                                           \
        T half[n / 2];                                                                             \
        __builtin_memcpy(half, &first, sizeof half);                                               \
        return sum_of<n / 2>(half);                                                                \
      }                                                                                            \
    }                                                                                              \
    template <class V>                                                                             \
    [[gnu::always_inline, target]] static V product(V a, V b)                                      \
    {                                                                                              \
      return a * b;                                                                                \
    }                                                                                              \
    template <class V>                                                                             \
    [[gnu::always_inline, target]] static V add_product(V a, V b, V sum)                           \
    {                                                                                              \
      return a * b + sum; /* one instruction */                                                    \
    }                                                                                              \
  };
CUBIST_REGISTERS(WideRegisters, CUBIST_AVX512, 64, 4, 4)
CUBIST_REGISTERS(NarrowRegisters, CUBIST_AVX2, 32, 4, 1)
#undef CUBIST_REGISTERS

// Functions that are compiled for one instruction set. A macro defines them, since the attribute
// cannot be a template's argument.
//   stored_products   sums[r][c] = scalar product of row i + r of x and row j + c step of b, over
//                     whole blocks of 32
//   stored_sums       to[r][l] += factors[r][0] from[0][l] + factors[r][1] from[1][l] + … for l in
//                     [0, n)
#define CUBIST_STORED_ROWS(Set, target)                                                            \
  template <std::size_t rows, std::size_t count, class T, class W>                                 \
  [[gnu::noinline, target]] void stored_products(                                                  \
      Set, MatrixView<const T> x, std::size_t i, const StoredRows<W>& b, std::size_t j,            \
      std::size_t step, std::array<std::array<T, count>, rows>& sums)                              \
  {                                                                                                \
    using Register = typename Set::template Register<T>;                                           \
    constexpr std::size_t lanes = Set::bytes / sizeof(T);                                          \
    constexpr std::size_t parts = 64 / sizeof(T);                                                  \
    constexpr std::size_t registers = parts / lanes;                                               \
    constexpr std::size_t some = 64;             /* blocks whose scales are converted at once */   \
    constexpr std::size_t ahead = 2048;          /* bytes */                                       \
    constexpr std::size_t line = 64 / sizeof(W); /* elements of a cache line */                    \
    alignas(64) float scale[count][some];                                                          \
    Register sum[rows][count][registers] = {};                                                     \
    const std::size_t blocks = x.cols() / q8_block;                                                \
    for (std::size_t first = 0; first < blocks; first += some)                                     \
    {                                                                                              \
      const std::size_t end = std::min(first + some, blocks);                                      \
      if constexpr (StoredRows<W>::has_scales)                                                     \
        for (std::size_t c = 0; c < count; ++c)                                                    \
        {                                                                                          \
          const half* const from = b.scales.row(j + c * step) + first;                             \
          std::size_t l = 0;                                                                       \
          for (; l + Set::lanes <= end - first; l += Set::lanes)                                   \
            Set::store(scale[c] + l, Set::load(from + l));                                         \
          for (; l + 4 <= end - first; l += 4) Set::store(scale[c] + l, Set::load_four(from + l)); \
          for (; l < end - first; ++l) scale[c][l] = Set::load_one(from + l);                      \
        }                                                                                          \
      for (std::size_t block = first; block < end; ++block)                                        \
      {                                                                                            \
        CUBIST_UNROLLED                                                                            \
        for (std::size_t c = 0; c < count; ++c)                                                    \
        {                                                                                          \
          const W* const from = b.elements.row(j + c * step) + block * q8_block;                   \
          CUBIST_UNROLLED                                                                          \
          for (std::size_t l = 0; l < q8_block; l += line)                                         \
            __builtin_prefetch(reinterpret_cast<const char*>(from + l) + ahead);                   \
          CUBIST_UNROLLED                                                                          \
          for (std::size_t l = 0; l < q8_block; l += lanes)                                        \
          {                                                                                        \
            Register w = Set::load(from + l);                                                      \
            if constexpr (StoredRows<W>::has_scales)                                               \
              w = Set::product(w, Set::all(scale[c][block - first]));                              \
            CUBIST_UNROLLED                                                                        \
            for (std::size_t r = 0; r < rows; ++r)                                                 \
            {                                                                                      \
              Register& to = sum[r][c][l / lanes % registers];                                     \
              to = Set::add_product(w, Set::load(x.row(i + r) + block * q8_block + l), to);        \
            }                                                                                      \
          }                                                                                        \
        }                                                                                          \
      }                                                                                            \
    }                                                                                              \
    CUBIST_UNROLLED                                                                                \
    for (std::size_t r = 0; r < rows; ++r)                                                         \
    {                                                                                              \
      CUBIST_UNROLLED                                                                              \
      for (std::size_t c = 0; c < count; ++c)                                                      \
      {                                                                                            \
        std::array<T, parts> part;                                                                 \
        CUBIST_UNROLLED                                                                            \
        for (std::size_t l = 0; l < registers; ++l)                                                \
          Set::store(part.data() + l * lanes, Set::in_register(sum[r][c][l]));                     \
        sums[r][c] = Set::template sum_of<parts>(part.data());                                     \
      }                                                                                            \
    }                                                                                              \
  }                                                                                                \
  template <std::size_t rows, std::size_t count, class W>                                          \
  [[gnu::noinline, target]] void stored_sums(                                                      \
      Set, const std::array<std::array<float, count>, rows>& factors,                              \
      const std::array<const W*, count>& from, std::size_t n, const std::array<float*, rows>& to)  \
  {                                                                                                \
    using Vector = typename Set::Vector;                                                           \
    std::size_t l = 0;                                                                             \
    for (; l + Set::lanes <= n; l += Set::lanes)                                                   \
    {                                                                                              \
      Vector sum[rows];                                                                            \
      CUBIST_UNROLLED                                                                              \
      for (std::size_t r = 0; r < rows; ++r) sum[r] = Set::load(to[r] + l);                        \
      CUBIST_UNROLLED                                                                              \
      for (std::size_t c = 0; c < count; ++c)                                                      \
      {                                                                                            \
        __builtin_prefetch(reinterpret_cast<const char*>(from[c] + l) + 2048);                     \
        const Vector w = Set::load(from[c] + l);                                                   \
        CUBIST_UNROLLED                                                                            \
        for (std::size_t r = 0; r < rows; ++r)                                                     \
          sum[r] = Set::add_product(w, Set::all(factors[r][c]), sum[r]);                           \
      }                                                                                            \
      CUBIST_UNROLLED                                                                              \
      for (std::size_t r = 0; r < rows; ++r) Set::store(to[r] + l, sum[r]);                        \
    }                                                                                              \
    for (; l < n; ++l)                                                                             \
      for (std::size_t r = 0; r < rows; ++r)                                                       \
        for (std::size_t c = 0; c < count; ++c)                                                    \
          to[r][l] += factors[r][c] * static_cast<float>(from[c][l]);                              \
  }
CUBIST_STORED_ROWS(WideRegisters, CUBIST_AVX512)
CUBIST_STORED_ROWS(NarrowRegisters, CUBIST_AVX2)
#undef CUBIST_STORED_ROWS

/// Computes the products of `rows` rows of X, starting at row i, and rows j + c step of B for the
/// numbers c below `count`.
/// @param used  how many of these products are stored
template <class Set, std::size_t rows, std::size_t count, class T, class W>
void multiply_group(T alpha, MatrixView<const T> x, std::size_t i, const StoredRows<W>& b,
                    std::size_t j, std::size_t step, T beta, MatrixView<T> y,
                    std::size_t used = count)
{
  std::array<std::array<T, count>, rows> sums;
  stored_products<rows, count>(Set{}, x, i, b, j, step, sums);
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = 0; c < used; ++c)
    {
      T sum = sums[r][c];
      if constexpr (!StoredRows<W>::has_scales)
        for (std::size_t l = x.cols() / q8_block * q8_block; l < x.cols(); ++l)
          sum += x(i + r, l) * static_cast<T>(b.elements(j + c * step, l));
      T& to = y(i + r, j + c * step);
      to = beta == 0 ? alpha * sum : alpha * sum + beta * to;
    }
}

/// Computes Y = alpha X B^T + beta Y. The last rows of B, fewer than are read at once, are read
/// several times in the same call, so that no other function is compiled for them.
template <class Set, class T, class W>
void multiply_rows_by(T alpha, MatrixView<const T> x, const StoredRows<W>& b, T beta,
                      MatrixView<T> y)
{
  constexpr std::size_t for_one = Set::together[0];
  constexpr std::size_t for_four = Set::together[1];
  const std::size_t step = y.cols() / for_one;
  const std::size_t fours = x.rows() / 4 * 4;
  for (std::size_t j = 0; j < step; ++j)
  {
    for (std::size_t i = 0; i < fours; i += 4)
      for (std::size_t c = 0; c < for_one; c += for_four)
        multiply_group<Set, 4, for_four>(alpha, x, i, b, j + c * step, step, beta, y);
    for (std::size_t i = fours; i < x.rows(); ++i)
      multiply_group<Set, 1, for_one>(alpha, x, i, b, j, step, beta, y);
  }
  for (std::size_t j = for_one * step; j < y.cols(); ++j)
    for (std::size_t i = 0; i < x.rows(); ++i)
      multiply_group<Set, 1, for_one>(alpha, x, i, b, j, 0, beta, y, 1);
}

/// Computes C += alpha A B for `rows` rows of A and C, starting at row i, and rows k + l step of B.
template <class Set, std::size_t rows, std::size_t streams, class W>
void add_group(float alpha, MatrixView<const float> a, MatrixView<const W> b, std::size_t step,
               std::size_t k, std::size_t i, MatrixView<float> c)
{
  std::array<std::array<float, streams>, rows> factors;
  std::array<const W*, streams> from;
  std::array<float*, rows> to;
  for (std::size_t l = 0; l < streams; ++l) from[l] = b.row(k + l * step);
  for (std::size_t r = 0; r < rows; ++r)
  {
    for (std::size_t l = 0; l < streams; ++l) factors[r][l] = alpha * a(i + r, k + l * step);
    to[r] = c.row(i + r);
  }
  stored_sums<rows, streams>(Set{}, factors, from, c.cols(), to);
}

template <class Set, std::size_t streams, class W>
void add_rows_by(float alpha, MatrixView<const float> a, MatrixView<const W> b, std::size_t step,
                 MatrixView<float> c)
{
  for (std::size_t k = 0; k < step; ++k)
  {
    std::size_t i = 0;
    for (; i + 4 <= c.rows(); i += 4) add_group<Set, 4, streams>(alpha, a, b, step, k, i, c);
    for (; i < c.rows(); ++i) add_group<Set, 1, streams>(alpha, a, b, step, k, i, c);
  }
}

#endif

/// Computes Y = alpha X B^T + beta Y; Y is not read when beta is 0.
/// @returns false, and computes nothing, on a target without instructions for it
/// @pre if B has scales, X has whole blocks of columns
template <std::floating_point T, class W>
[[nodiscard]] bool multiply_rows([[maybe_unused]] Target target, [[maybe_unused]] T alpha,
                                 [[maybe_unused]] MatrixView<const T> x,
                                 [[maybe_unused]] const StoredRows<W>& b, [[maybe_unused]] T beta,
                                 [[maybe_unused]] MatrixView<T> y)
{
#ifdef CUBIST_X86_TARGETS
  if (target == Target::avx512) return multiply_rows_by<WideRegisters>(alpha, x, b, beta, y), true;
  if (target == Target::avx2) return multiply_rows_by<NarrowRegisters>(alpha, x, b, beta, y), true;
#endif
  return false;
}

/// Computes C += alpha A B for the first streams x step rows of B, reading rows that are `step`
/// apart at a time.
/// @returns false, and computes nothing, on a target without instructions for it
template <std::size_t streams, ShortReal W>
[[nodiscard]] bool add_rows([[maybe_unused]] Target target, [[maybe_unused]] float alpha,
                            [[maybe_unused]] MatrixView<const float> a,
                            [[maybe_unused]] MatrixView<const W> b,
                            [[maybe_unused]] std::size_t step, [[maybe_unused]] MatrixView<float> c)
{
#ifdef CUBIST_X86_TARGETS
  if (target == Target::avx512)
    return add_rows_by<WideRegisters, streams>(alpha, a, b, step, c), true;
  if (target == Target::avx2)
    return add_rows_by<NarrowRegisters, streams>(alpha, a, b, step, c), true;
#endif
  return false;
}

}  // namespace cubist::CUBIST_ABI::detail
