// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A warp of a device, which multiplies tiles of 16-bit elements on its tensor cores, for the
// kernels of attention_kernels.hpp. Only nvcc compiles it, for compute capability 8.0 or newer.
//
// Thread t of a warp holds elements of rows t / 4 and t / 4 + 8 of a tile of 16 rows; these are its
// slots 0 and 1. It holds two of 8 adjacent columns, from 2 (t % 4) on.
//
// Source: NVIDIA, "Parallel Thread Execution ISA", Matrix Fragments for mma.m16n8k16, ldmatrix.

#ifdef __CUDACC__

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>

#include "cubist/core/scalar.hpp"
#include "cubist/engine/cuda/chunks.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// The warps of a block of 128 threads.
template <ShortReal T>
class DeviceWarp
{
 public:
  static constexpr unsigned count = 4;

  struct Left
  {
    std::uint32_t x[4];
  };
  /// Two tiles of 16 x 8.
  struct Right
  {
    std::uint32_t x[4];
  };
  struct Rows
  {
    float x[2];
  };
  template <unsigned n>
  struct Sums
  {
    float x[n / 8][4] = {};
  };

  [[nodiscard]] __device__ static unsigned block() { return blockIdx.x; }
  [[nodiscard]] __device__ static unsigned thread() { return threadIdx.x; }
  [[nodiscard]] __device__ static unsigned threads() { return 32 * count; }
  /// The index of this warp in its block.
  [[nodiscard]] __device__ static unsigned index() { return threadIdx.x / 32; }
  /// Synchronizes the threads of the block.
  __device__ static void wait() { __syncthreads(); }

  /// Begins to copy 16 bytes to shared memory, or zeros if the bytes do not exist.
  __device__ static void copy(T* to, const T* from, bool exists)
  {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                     static_cast<std::uint32_t>(__cvta_generic_to_shared(to))),
                 "l"(from), "r"(exists ? 16 : 0)
                 : "memory");
#endif
  }
  /// Ends a group of the copies that this thread has begun.
  __device__ static void end_copies()
  {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
  }
  /// Waits until all groups of this thread but the last n are copied.
  template <unsigned n>
  __device__ static void wait_for_copies()
  {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory");
#endif
  }

  /// Loads 16 x 16 elements of a tile in shared memory.
  [[nodiscard]] __device__ static Left left(const T* tile, unsigned ld)
  {
    Left a;
    load<false>(a.x, tile + lane() % 16 * ld + lane() / 16 * 8);
    return a;
  }
  /// Converts columns k to k + 15 of sums, rounded to T.
  template <unsigned n>
  [[nodiscard]] __device__ static Left left(const Sums<n>& sums, unsigned k)
  {
    const auto& first = sums.x[k / 8];
    const auto& second = sums.x[k / 8 + 1];
    return {{pack(first[0], first[1]), pack(first[2], first[3]), pack(second[0], second[1]),
             pack(second[2], second[3])}};
  }
  /// Loads B^T, for 16 rows of a matrix B of 16 columns in shared memory.
  [[nodiscard]] __device__ static Right right_of_rows(const T* tile, unsigned ld)
  {
    Right b;
    load<false>(b.x, tile + (lane() % 8 + lane() / 16 * 8) * ld + lane() / 8 % 2 * 8);
    return b;
  }
  /// Loads B, for 16 rows of a matrix B of 16 columns in shared memory.
  [[nodiscard]] __device__ static Right right_of_columns(const T* tile, unsigned ld)
  {
    Right b;
    load<true>(b.x, tile + lane() % 16 * ld + lane() / 16 * 8);
    return b;
  }

  /// Adds a b to columns j to j + 15 of sums.
  template <unsigned n>
  __device__ static void multiply(Sums<n>& sums, unsigned j, const Left& a, const Right& b)
  {
    multiply(sums.x[j / 8], a.x, b.x[0], b.x[1]);
    multiply(sums.x[j / 8 + 1], a.x, b.x[2], b.x[3]);
  }

  /// Calls f(x, i, j, slot) for this thread's elements x(i, j).
  template <unsigned n, class F>
  __device__ static void for_each(Sums<n>& sums, F f)
  {
    CUBIST_UNROLL
    for (unsigned tile = 0; tile < n / 8; ++tile) CUBIST_UNROLL
    for (unsigned e = 0; e < 4; ++e)
      f(sums.x[tile][e], lane() / 4 + e / 2 * 8, 8 * tile + lane() % 4 * 2 + e % 2, e / 2);
  }
  /// Calls f(x, y, i, j, slot) for this thread's elements x(i, j) and y(i, j).
  template <unsigned n, class F>
  __device__ static void for_each_pair(Sums<n>& x, Sums<n>& y, F f)
  {
    CUBIST_UNROLL
    for (unsigned tile = 0; tile < n / 8; ++tile) CUBIST_UNROLL
    for (unsigned e = 0; e < 4; ++e)
      f(x.x[tile][e], y.x[tile][e], lane() / 4 + e / 2 * 8, 8 * tile + lane() % 4 * 2 + e % 2,
        e / 2);
  }

  [[nodiscard]] __device__ static Rows rows(float value) { return {{value, value}}; }
  /// Calls f(i, slot) for this thread's rows.
  template <class F>
  __device__ static void for_each_row(F f)
  {
    f(lane() / 4, 0U);
    f(lane() / 4 + 8, 1U);
  }
  /// Raises each row's number to the largest of the row's sums.
  template <unsigned n>
  __device__ static void raise(Rows& largest, Sums<n>& sums)
  {
    for_each(sums, [&](float& x, unsigned, unsigned, unsigned slot) {
      largest.x[slot] = fmaxf(largest.x[slot], x);
    });
    combine(largest, [](float a, float b) { return fmaxf(a, b); });
  }
  /// Adds up the parts of each row that the threads hold, and gives the sum to all of them.
  __device__ static void add_up(Rows& parts)
  {
    combine(parts, [](float a, float b) { return a + b; });
  }
  /// Adds this thread's parts of the row sums of a ∘ b.
  __device__ static void add_products(Rows& parts, const Left& a, const Left& b)
  {
    CUBIST_UNROLL
    for (unsigned k = 0; k < 4; ++k)
      parts.x[k % 2] += low(a.x[k]) * low(b.x[k]) + low(a.x[k] >> 16) * low(b.x[k] >> 16);
  }

  /// Stores the sums, rounded to T, in `valid` rows of `out`, whose rows are aligned to 4 bytes.
  template <unsigned n>
  __device__ static void store(const Sums<n>& sums, T* out, std::size_t ld, std::size_t valid)
  {
    CUBIST_UNROLL
    for (unsigned tile = 0; tile < n / 8; ++tile) CUBIST_UNROLL
    for (unsigned slot = 0; slot < 2; ++slot)
    {
      const unsigned row = lane() / 4 + 8 * slot;
      if (row < valid)
        *reinterpret_cast<std::uint32_t*>(out + row * ld + 8 * tile + lane() % 4 * 2) =
            pack(sums.x[tile][2 * slot], sums.x[tile][2 * slot + 1]);
    }
  }

 private:
  static constexpr bool is_bfloat16 = std::same_as<T, bfloat16>;

  [[nodiscard]] __device__ static unsigned lane() { return threadIdx.x % 32; }

  /// Combines the values of threads that hold parts of the same rows.
  template <class F>
  __device__ static void combine(Rows& rows, F f)
  {
    CUBIST_UNROLL
    for (unsigned slot = 0; slot < 2; ++slot) CUBIST_UNROLL
    for (int distance = 1; distance < 4; distance *= 2)
      rows.x[slot] = f(rows.x[slot], __shfl_xor_sync(0xFFFF'FFFFU, rows.x[slot], distance));
  }

  [[nodiscard]] __device__ static float low(std::uint32_t bits)
  {
    return static_cast<float>(T::from_bits(static_cast<std::uint16_t>(bits)));
  }

  // Older devices never execute these instructions: FusedAttention checks first.
#if __CUDA_ARCH__ >= 800
  [[nodiscard]] __device__ static std::uint32_t pack(float low, float high)
  {
    std::uint32_t x;
    if constexpr (is_bfloat16)
      asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(x) : "f"(high), "f"(low));
    else
      asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(x) : "f"(high), "f"(low));
    return x;
  }
  /// Loads four 8 x 8 matrices, transposed or not; each thread points to a row of one.
  template <bool transposed>
  __device__ static void load(std::uint32_t (&x)[4], const T* row)
  {
    const auto at = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
    if constexpr (transposed)
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                   : "r"(at)
                   : "memory");
    else
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                   : "r"(at)
                   : "memory");
  }
  __device__ static void multiply(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                  std::uint32_t b1)
  {
    if constexpr (is_bfloat16)
      asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
          "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
          : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    else
      asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
          "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
          : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
#else
  [[nodiscard]] __device__ static std::uint32_t pack(float, float) { return 0; }
  template <bool transposed>
  __device__ static void load(std::uint32_t (&)[4], const T*)
  {
    __trap();
  }
  __device__ static void multiply(float (&)[4], const std::uint32_t (&)[4], std::uint32_t,
                                  std::uint32_t)
  {
    __trap();
  }
#endif
};

}  // namespace cubist::CUBIST_ABI::detail

#endif
