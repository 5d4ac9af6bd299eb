// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Threads whose buffers are counted, to compare with the memory of simulated ranks.

#include <algorithm>
#include <cstddef>
#include <vector>

#include "cubist/backend/threads.hpp"
#include "cubist/engine/host/engine.hpp"
#include "cubist/memory/huge_pages.hpp"

namespace cubist::test
{

/// The bytes that this thread's buffers have, and the most that they had.
struct Bytes
{
  std::size_t now = 0;
  std::size_t peak = 0;
};
inline thread_local Bytes bytes;

template <class T>
struct CountingAllocator : HugePages<T>
{
  using value_type = T;

  CountingAllocator() = default;
  template <class U>
  CountingAllocator(const CountingAllocator<U>&)
  {
  }
  [[nodiscard]] T* allocate(std::size_t n)
  {
    bytes.peak = std::max(bytes.peak, bytes.now += n * sizeof(T));
    return HugePages<T>::allocate(n);
  }
  void deallocate(T* p, std::size_t n)
  {
    bytes.now -= n * sizeof(T);
    HugePages<T>::deallocate(p, n);
  }
};

struct CountingEngine : HostEngine
{
  template <class T>
  using Buffer = std::vector<T, CountingAllocator<T>>;
};

struct CountedThreads : Threads
{
  using Engine = CountingEngine;
};

}  // namespace cubist::test
