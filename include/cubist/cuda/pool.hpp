// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Where the buffers of a thread come from: from a pool that a backend installs, or from CUDA's own
// pool.

#include <cstddef>
#include <memory>
#include <utility>

#include "cubist/version.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Device memory in the order of one stream: `free` may precede the end of the work that uses the
/// memory, because `allocate` gives it to later work of the same stream.
class DevicePool
{
 public:
  DevicePool() = default;
  DevicePool(DevicePool&&) = delete;
  virtual ~DevicePool() = default;

  /// @throws DeviceError if there is no memory left
  [[nodiscard]] virtual void* allocate(std::size_t bytes) = 0;
  /// @param bytes as given to `allocate`
  virtual void free(void* data, std::size_t bytes) noexcept = 0;

  /// The pool of the thread that calls it; null: CUDA's. Buffers own the pool that they are from.
  [[nodiscard]] static std::shared_ptr<DevicePool>& current()
  {
    static thread_local std::shared_ptr<DevicePool> pool;
    return pool;
  }
};

/// The scope in which buffers of this thread come from a pool.
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
