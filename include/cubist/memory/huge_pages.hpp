// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Memory for matrices in pages of 2 MiB. BLAS reads a block of a matrix row by row, and each row of
// a large one begins on another page: with pages of 4 KiB the processor looks most of them up
// again. Linux gives large pages to those who ask (transparent_hugepage/enabled: madvise, its
// usual setting, or always). docs/decisions/0020-huge-pages.md has figures.

#include <cstddef>
#include <new>

#include <sys/mman.h>

namespace cubist
{

/// What is large lies on huge pages, where the system has them; the rest is from the heap.
template <class T>
class HugePages
{
 public:
  using value_type = T;

  static constexpr std::size_t page = std::size_t{2} << 20;
  static constexpr std::size_t least = 2 * page;  // in bytes

  HugePages() = default;
  template <class U>
  HugePages(const HugePages<U>&)
  {
  }

  [[nodiscard]] T* allocate(std::size_t n)
  {
    const std::size_t bytes = n * sizeof(T);
    if (bytes < least) return static_cast<T*>(::operator new(bytes));
    void* p = ::operator new (bytes, std::align_val_t{page});
    madvise(p, bytes / page * page, MADV_HUGEPAGE);  // if not, pages are small
    return static_cast<T*>(p);
  }
  void deallocate(T* p, std::size_t n)
  {
    if (n * sizeof(T) < least) return ::operator delete(p);
    ::operator delete (p, std::align_val_t{page});
  }

  friend bool operator==(const HugePages&, const HugePages&) { return true; }
};

}  // namespace cubist
