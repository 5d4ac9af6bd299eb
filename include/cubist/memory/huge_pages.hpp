// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// An allocator of memory in pages of 2 MiB. BLAS reads blocks row by row, and each row of a large
// matrix begins on another page: pages of 4 KiB would miss the processor's TLB. Linux grants huge
// pages on request where transparent_hugepage/enabled is madvise, the usual setting, or always.
// Measured: docs/decisions/0020-huge-pages.md.

#include <cstddef>
#include <new>

#include <sys/mman.h>

#include "cubist/version.hpp"

namespace cubist::CUBIST_ABI
{

/// Requests huge pages for large allocations; small ones are from the heap.
template <class T>
class HugePages
{
 public:
  using value_type = T;

  /// Bytes of a page.
  static constexpr std::size_t page = std::size_t{2} << 20;
  static constexpr std::size_t threshold = 2 * page;  // bytes from which huge pages are used

  HugePages() = default;
  template <class U>
  HugePages(const HugePages<U>&)
  {
  }

  [[nodiscard]] T* allocate(std::size_t n)
  {
    const std::size_t bytes = n * sizeof(T);
    if (bytes < threshold) return static_cast<T*>(::operator new(bytes));
    void* p = ::operator new (bytes, std::align_val_t{page});
    madvise(p, bytes / page * page, MADV_HUGEPAGE);  // a refusal leaves small pages
    return static_cast<T*>(p);
  }
  void deallocate(T* p, std::size_t n)
  {
    if (n * sizeof(T) < threshold) return ::operator delete(p);
    ::operator delete (p, std::align_val_t{page});
  }

  friend bool operator==(const HugePages&, const HugePages&) { return true; }
};

}  // namespace cubist::CUBIST_ABI
