// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Addresses for matrices without elements. They are reserved, so no other object has them, but no
// memory is behind them, so an access ends the program.

#include <cstddef>
#include <cstdint>

#include <sys/mman.h>

#include "cubist/core/error.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// The addresses of all ranks. Each rank counts through them by itself, so buffers of one rank have
/// different addresses, but buffers of two ranks may have equal ones.
class SimulatedAddresses
{
 public:
  /// @throws CommunicationError if the system reserves none
  [[nodiscard]] static const SimulatedAddresses& get()
  {
    static const SimulatedAddresses all;
    return all;
  }

  /// Whether this is null or one of the simulation's addresses.
  [[nodiscard]] static bool contains(const void* p)
  {
    const auto& all = get();
    return reinterpret_cast<std::uintptr_t>(p) - all.begin_ < all.size_;
  }

  /// Returns the address of the next buffer; `next` is a rank's count. After the last address, it
  /// starts again at the first, whose buffer was freed long ago.
  /// @throws ArgumentError for more bytes than there are addresses
  [[nodiscard]] void* take(std::size_t bytes, std::size_t& next) const
  {
    require<ArgumentError>(bytes <= size_, "got a block of ", bytes,
                           " bytes on one rank, for which the simulator has too few addresses; cut "
                           "the matrix over more ranks");
    if (next > size_ - bytes) next = 0;
    void* const p = reinterpret_cast<void*>(begin_ + next);  // NOLINT: never accessed
    next += (bytes + alignment - 1) / alignment * alignment;
    return p;
  }

 private:
  static constexpr std::size_t alignment = 64;

  SimulatedAddresses()
  {
    // As many addresses as the system, or a sanitizer, permits.
    for (size_ = std::size_t{1} << 45; size_ >= std::size_t{1} << 34; size_ /= 2)
    {
      void* const p =
          mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (p == MAP_FAILED) continue;
      begin_ = reinterpret_cast<std::uintptr_t>(p);
      return;
    }
    throw CommunicationError{
        "the system cannot reserve 16 GiB of addresses, so simulated matrices would have none; "
        "raise the limit (ulimit -v)"};
  }

  std::uintptr_t begin_ = 0;
  std::size_t size_ = 0;
};

}  // namespace cubist::CUBIST_ABI::detail
