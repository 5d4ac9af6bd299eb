// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Ranks as threads whose buffers are counted: what a program really allocates.

#include <algorithm>
#include <cstddef>
#include <vector>

#include "cubist/backend/threads.hpp"

namespace cubist::test
{

/// The bytes that this thread's buffers have, and the most that they had.
struct CountedBytes
{
  std::size_t now = 0;
  std::size_t peak = 0;
};
inline thread_local CountedBytes counted_bytes;

template <class T>
struct CountedAllocator : HugePages<T>
{
  using value_type = T;

  CountedAllocator() = default;
  template <class U>
  CountedAllocator(const CountedAllocator<U>&)
  {
  }
  [[nodiscard]] T* allocate(std::size_t n)
  {
    counted_bytes.peak = std::max(counted_bytes.peak, counted_bytes.now += n * sizeof(T));
    return HugePages<T>::allocate(n);
  }
  void deallocate(T* p, std::size_t n)
  {
    counted_bytes.now -= n * sizeof(T);
    HugePages<T>::deallocate(p, n);
  }
};

struct CountedEngine : HostEngine
{
  template <class T>
  using Buffer = std::vector<T, CountedAllocator<T>>;
};

struct CountedThreads : Threads
{
  using Engine = CountedEngine;
};

}  // namespace cubist::test
