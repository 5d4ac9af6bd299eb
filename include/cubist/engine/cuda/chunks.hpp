// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Accesses a few adjacent elements of a row at once: 16 bytes at a time if the matrices are
// aligned, or else element by element. A thread visits the same elements in the same order either
// way.
//
// A thread that sums many chunks loads all chunks of a series before it uses the first one. A load
// takes some 500 ns, and one access in flight per thread does not use all of the memory's
// bandwidth.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "cubist/core/block.hpp"
#include "cubist/core/host_device.hpp"
#include "cubist/core/matrix_view.hpp"

// Loops over a chunk are unrolled, so that its elements are in registers. With CUBIST_QUICK_KERNELS
// they stay loops, for builds whose only aim is to compile quickly.
#ifndef __CUDA_ARCH__
#define CUBIST_UNROLL
#define CUBIST_NO_UNROLL
#elif defined CUBIST_QUICK_KERNELS
#define CUBIST_UNROLL _Pragma("unroll 1")
#define CUBIST_NO_UNROLL _Pragma("unroll 1")
#else
#define CUBIST_UNROLL _Pragma("unroll")
#define CUBIST_NO_UNROLL _Pragma("unroll 1")
#endif

namespace cubist::CUBIST_ABI::detail
{

inline constexpr std::size_t access_bytes = 16;

/// How many elements of each matrix are accessed at once, for elements of these sizes: as many as
/// 16 bytes hold of the smallest, and at most 8.
[[nodiscard]] constexpr unsigned chunk_width(std::initializer_list<std::size_t> sizes)
{
  std::size_t least = access_bytes;
  for (const std::size_t size : sizes) least = std::min(least, size);
  return static_cast<unsigned>(std::min<std::size_t>(access_bytes / least, 8));
}
template <class... T>
inline constexpr unsigned chunk_width_of = chunk_width({sizeof(T)...});

/// The alignment of n elements that are accessed at once.
template <class T, unsigned n>
inline constexpr std::size_t chunk_alignment = std::min(access_bytes, n * sizeof(T));

/// Whether all whole chunks can be accessed at once.
template <unsigned n, class T>
[[nodiscard]] CUBIST_HOST_DEVICE bool chunks_are_aligned(const MatrixView<T>& m)
{
  constexpr std::size_t bytes = chunk_alignment<T, n>;
  return n > 1 && reinterpret_cast<std::uintptr_t>(m.data()) % bytes == 0 &&
         (m.rows() <= 1 || m.ld() * sizeof(T) % bytes == 0);
}

template <std::size_t bytes>
struct alignas(bytes) Word
{
  std::conditional_t<(bytes < 4), unsigned char[bytes], std::uint32_t[(bytes + 3) / 4]> part;
};

/// n adjacent elements in registers; `store` writes those that are not const.
template <class T, unsigned n>
class Chunk
{
 public:
  /// @param inside  whether the elements exist; if not, they are neither loaded nor stored
  CUBIST_HOST_DEVICE explicit Chunk(T* at, bool inside = true)
      : at_{at},
        inside_{inside}
  {
    if (!inside) return;
    if constexpr (n == 1)
      x_[0] = *at;
    else
    {
      CUBIST_UNROLL
      for (unsigned w = 0; w < words; ++w)
      {
        const W word = reinterpret_cast<const W*>(at)[w];
        std::memcpy(reinterpret_cast<char*>(x_) + w * sizeof(W), &word, sizeof(W));
      }
    }
  }
  [[nodiscard]] CUBIST_HOST_DEVICE T& operator[](unsigned k) { return x_[k]; }
  CUBIST_HOST_DEVICE void store() const
  {
    if constexpr (!std::is_const_v<T>)
    {
      if (!inside_) return;
      if constexpr (n == 1)
        *at_ = x_[0];
      else
      {
        CUBIST_UNROLL
        for (unsigned w = 0; w < words; ++w)
        {
          W word;
          std::memcpy(&word, reinterpret_cast<const char*>(x_) + w * sizeof(W), sizeof(W));
          reinterpret_cast<W*>(at_)[w] = word;
        }
      }
    }
  }

 private:
  using W = Word<chunk_alignment<T, n>>;
  static constexpr unsigned words = n * sizeof(T) / sizeof(W);

  T* at_;
  bool inside_;
  std::remove_const_t<T> x_[n];
};

/// Where the chunks of a series are: the first one is at (i, j), and each next one is `down` rows
/// and `right` columns further.
struct SeriesPlace
{
  std::size_t i;
  std::size_t j;
  std::size_t down;
  std::size_t right;

  [[nodiscard]] CUBIST_HOST_DEVICE std::size_t row(unsigned r) const { return i + r * down; }
  [[nodiscard]] CUBIST_HOST_DEVICE std::size_t column(unsigned r) const { return j + r * right; }
  /// Whether the r-th chunk begins inside a matrix of this shape.
  [[nodiscard]] CUBIST_HOST_DEVICE bool begins_in(Shape shape, unsigned r) const
  {
    return row(r) < shape.rows && column(r) < shape.cols;
  }
};

/// The chunks of a series of `count` that begin inside a matrix, held in registers.
template <class T, unsigned n, unsigned count>
class ChunkSeries
{
 public:
  CUBIST_HOST_DEVICE ChunkSeries(const MatrixView<T>& m, const SeriesPlace& at, Shape shape)
      : ChunkSeries{m, at, shape, std::make_integer_sequence<unsigned, count>{}}
  {
  }
  [[nodiscard]] CUBIST_HOST_DEVICE T& at(unsigned r, unsigned k) { return chunks_[r][k]; }
  CUBIST_HOST_DEVICE void store() const
  {
    CUBIST_UNROLL
    for (unsigned r = 0; r < count; ++r) chunks_[r].store();
  }

 private:
  template <unsigned... r>
  CUBIST_HOST_DEVICE ChunkSeries(const MatrixView<T>& m, const SeriesPlace& at, Shape shape,
                                 std::integer_sequence<unsigned, r...>)
      : chunks_{Chunk<T, n>{m.row(at.row(r)) + at.column(r), at.begins_in(shape, r)}...}
  {
  }

  Chunk<T, n> chunks_[count];
};

template <unsigned n, class F, class... C>
CUBIST_HOST_DEVICE void on_registers(const F& f, C... chunks)
{
  CUBIST_UNROLL
  for (unsigned k = 0; k < n; ++k) f(k, chunks[k]...);
  (chunks.store(), ...);
}

/// Calls f(k, m(i, j + k)…) for those k in [0, n) that have a column.
template <unsigned n, class F, class... T>
CUBIST_HOST_DEVICE void for_chunk(bool aligned, std::size_t i, std::size_t j, std::size_t cols,
                                  const F& f, const MatrixView<T>&... m)
{
  if constexpr (n > 1)
    if (aligned && j + n <= cols) return on_registers<n>(f, Chunk<T, n>{m.row(i) + j}...);
  CUBIST_NO_UNROLL
  for (unsigned k = 0; k < n && j + k < cols; ++k) f(k, m(i, j + k)...);
}

template <unsigned n, unsigned count, class F, class... S>
CUBIST_HOST_DEVICE void on_series(const F& f, const SeriesPlace& at, Shape shape, S... series)
{
  CUBIST_UNROLL
  for (unsigned r = 0; r < count; ++r)
    if (at.begins_in(shape, r))
    {
      CUBIST_UNROLL
      for (unsigned k = 0; k < n; ++k) f(r, k, series.at(r, k)...);
    }
  (series.store(), ...);
}

/// Calls f(r, k, m(row(r), column(r) + k)…) for those r in [0, count) and k in [0, n) that have a
/// row and a column.
template <unsigned n, unsigned count, class F, class... T>
CUBIST_HOST_DEVICE void for_series(bool aligned, const SeriesPlace& at, Shape shape, const F& f,
                                   const MatrixView<T>&... m)
{
  const auto at_once = [&] {
    on_series<n, count>(f, at, shape, ChunkSeries<T, n, count>{m, at, shape}...);
  };
  if constexpr (n == 1)
    at_once();
  else
  {
    const bool whole = shape.cols % n == 0 || at.column(count - 1) + n <= shape.cols;
    if (aligned && whole) return at_once();
    CUBIST_NO_UNROLL
    for (unsigned r = 0; r < count && at.row(r) < shape.rows; ++r)
      for_chunk<n>(
          aligned, at.row(r), at.column(r), shape.cols,
          [&](unsigned k, auto&... x) { f(r, k, x...); }, m...);
  }
}

/// How many chunks of matrices of these types make a series in a sum. With three matrices or more
/// it is one, since more threads run at a time if each has fewer registers.
template <class... T>
inline constexpr unsigned series_length = sizeof...(T) <= 2 ? 4 : 1;

/// Calls f(x[k]) on an array in registers, which cannot be indexed by a number known only at run
/// time.
template <class X, unsigned n, class F>
CUBIST_HOST_DEVICE void on_register(X (&x)[n], unsigned k, const F& f)
{
  CUBIST_UNROLL
  for (unsigned c = 0; c < n; ++c)
    if (c == k) f(x[c]);
}

}  // namespace cubist::CUBIST_ABI::detail
