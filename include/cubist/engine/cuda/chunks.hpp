// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Access to a few adjacent elements of a row at once: 16 bytes at a time where the matrices are
// aligned, else element by element. The elements that a thread visits, and their order, are the
// same.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "cubist/core/host_device.hpp"
#include "cubist/core/matrix_view.hpp"

// Loops over a chunk are unrolled, so that its elements are in registers; not so where a program
// only has to compile, in less time (CUBIST_QUICK_KERNELS).
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

/// How many elements of each matrix are accessed at once, for elements of these sizes: those in 16
/// bytes of the smallest, at most 8.
[[nodiscard]] constexpr unsigned chunk_width(std::initializer_list<std::size_t> sizes)
{
  std::size_t least = access_bytes;
  for (const std::size_t size : sizes) least = std::min(least, size);
  return static_cast<unsigned>(std::min<std::size_t>(access_bytes / least, 8));
}
template <class... T>
inline constexpr unsigned chunk_width_of = chunk_width({sizeof(T)...});

/// What n elements are aligned to where they are accessed at once.
template <class T, unsigned n>
inline constexpr std::size_t chunk_alignment = std::min(access_bytes, n * sizeof(T));

/// Whether all chunks of whole length can be accessed at once.
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
  CUBIST_HOST_DEVICE explicit Chunk(T* at) : at_{at}
  {
    CUBIST_UNROLL
    for (unsigned w = 0; w < words; ++w)
    {
      const W word = reinterpret_cast<const W*>(at)[w];
      std::memcpy(reinterpret_cast<char*>(x_) + w * sizeof(W), &word, sizeof(W));
    }
  }
  [[nodiscard]] CUBIST_HOST_DEVICE T& operator[](unsigned k) { return x_[k]; }
  CUBIST_HOST_DEVICE void store() const
  {
    if constexpr (!std::is_const_v<T>)
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

 private:
  using W = Word<chunk_alignment<T, n>>;
  static constexpr unsigned words = n * sizeof(T) / sizeof(W);

  T* at_;
  std::remove_const_t<T> x_[n];
};

template <unsigned n, class F, class... C>
CUBIST_HOST_DEVICE void on_registers(const F& f, C... chunks)
{
  CUBIST_UNROLL
  for (unsigned k = 0; k < n; ++k) f(k, chunks[k]...);
  (chunks.store(), ...);
}

/// f(k, m(i, j + k)…) for k in [0, n), as far as there are columns
template <unsigned n, class F, class... T>
CUBIST_HOST_DEVICE void for_chunk(bool aligned, std::size_t i, std::size_t j, std::size_t cols,
                                  const F& f, const MatrixView<T>&... m)
{
  if constexpr (n > 1)
    if (aligned && j + n <= cols) return on_registers<n>(f, Chunk<T, n>{m.row(i) + j}...);
  CUBIST_NO_UNROLL
  for (unsigned k = 0; k < n && j + k < cols; ++k) f(k, m(i, j + k)...);
}

}  // namespace cubist::CUBIST_ABI::detail
