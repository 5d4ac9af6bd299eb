// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Allocates memory in pages of 2 MiB. BLAS reads blocks row by row, and each row of a large matrix
// begins on another page, so pages of 4 KiB would miss the processor's TLB. Linux grants huge pages
// on request if transparent_hugepage/enabled is madvise, the usual setting, or always.
// docs/decisions/0020-huge-pages.md shows measurements.

#include <cstddef>
#include <new>

#include <sys/mman.h>

#include "cubist/version.hpp"

namespace cubist::CUBIST_ABI
{

/// Requests huge pages for large allocations. Small ones come from the heap and begin on a cache
/// line, so that no vector of an aligned loop crosses from one line to the next.
template <class T>
class HugePages
{
 public:
  using value_type = T;

  /// The size of a page, in bytes.
  static constexpr std::size_t page = std::size_t{2} << 20;
  static constexpr std::size_t threshold = 2 * page;  // the fewest bytes that use huge pages
  static constexpr std::size_t cache_line = 64;       // bytes, as many as an AVX-512 register has

  HugePages() = default;
  template <class U>
  HugePages(const HugePages<U>&)
  {
  }

  [[nodiscard]] T* allocate(std::size_t n)
  {
    const std::size_t bytes = n * sizeof(T);
    void* p = ::operator new(bytes, alignment(bytes));
    // If the system refuses, the pages stay small.
    if (bytes >= threshold) madvise(p, bytes / page * page, MADV_HUGEPAGE);
    return static_cast<T*>(p);
  }
  void deallocate(T* p, std::size_t n) { ::operator delete(p, alignment(n * sizeof(T))); }

  friend bool operator==(const HugePages&, const HugePages&) { return true; }

 private:
  [[nodiscard]] static std::align_val_t alignment(std::size_t bytes)
  {
    return std::align_val_t{bytes < threshold ? cache_line : page};
  }
};

}  // namespace cubist::CUBIST_ABI
