// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Where the buffers of a thread come from: a pool that a backend installs, or CUDA's pool.

#include <cstddef>
#include <memory>
#include <utility>

#include "cubist/version.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Device memory in the order of one stream. `free` may be called before the work that uses the
/// memory has ended, because `allocate` gives the memory to later work of the same stream.
class DevicePool
{
 public:
  DevicePool() = default;
  DevicePool(DevicePool&&) = delete;
  virtual ~DevicePool() = default;

  /// Allocates memory.
  /// @throws DeviceError if there is no memory left
  [[nodiscard]] virtual void* allocate(std::size_t bytes) = 0;
  /// Frees memory.
  /// @param bytes the number that was given to `allocate`
  virtual void free(void* data, std::size_t bytes) noexcept = 0;

  /// The calling thread's pool; null stands for CUDA's. Buffers share the ownership of the pool
  /// that they come from.
  [[nodiscard]] static std::shared_ptr<DevicePool>& current()
  {
    static thread_local std::shared_ptr<DevicePool> pool;
    return pool;
  }
};

/// Makes this thread's buffers come from a pool until the end of the scope.
class DevicePoolScope
{
 public:
  explicit DevicePoolScope(std::shared_ptr<DevicePool> pool)
      : outer_{std::exchange(DevicePool::current(), std::move(pool))}
  {
  }
  DevicePoolScope(DevicePoolScope&&) = delete;
  ~DevicePoolScope() { DevicePool::current() = std::move(outer_); }

 private:
  std::shared_ptr<DevicePool> outer_;
};

}  // namespace cubist::CUBIST_ABI::detail
