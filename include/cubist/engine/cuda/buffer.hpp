// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Device memory that an object owns. It is allocated and freed in the order of the compute stream,
// from the thread's pool: CUDA's, or one that a backend has installed (cuda/pool.hpp). The pool
// keeps freed memory, so after the first training step the driver allocates nothing. A buffer
// belongs to the thread that created it.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <type_traits>
#include <utility>

#include <cuda_runtime_api.h>

#include "cubist/cuda/check.hpp"
#include "cubist/cuda/pool.hpp"
#include "cubist/engine/cuda/capture.hpp"
#include "cubist/engine/cuda/compute_stream.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

/// Makes the current device's pool keep the memory that is freed, once per thread and device.
inline void keep_pool_memory()
{
  static thread_local int configured = -1;
  const int device = current_device();
  if (device == configured) return;
  cudaMemPool_t pool = nullptr;
  require_cuda(cudaDeviceGetDefaultMemPool(&pool, device), "cudaDeviceGetDefaultMemPool",
               "the memory of device ", device);
  auto all = std::numeric_limits<std::uint64_t>::max();
  require_cuda(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all),
               "cudaMemPoolSetAttribute", "the memory of device ", device);
  configured = device;
}

}  // namespace detail

/// Memory of a GPU. It begins as n zeros.
template <class T>
class CudaBuffer
{
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  CudaBuffer() = default;
  /// Allocates n zeros.
  /// @throws DeviceError if the device is out of memory
  explicit CudaBuffer(std::size_t n)
      : CudaBuffer{n, Uninitialized{}}
  {
    zero(0);
  }
  CudaBuffer(const CudaBuffer& other)
      : CudaBuffer{other.size_, Uninitialized{}}
  {
    copy(other, size_);
  }
  CudaBuffer(CudaBuffer&& other) noexcept
      : pool_{std::move(other.pool_)},
        data_{std::exchange(other.data_, nullptr)},
        size_{std::exchange(other.size_, 0)},
        number_{other.number_}
  {
  }
  CudaBuffer& operator=(CudaBuffer other) noexcept
  {
    std::swap(pool_, other.pool_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(number_, other.number_);
    return *this;
  }
  ~CudaBuffer()
  {
    if (data_ == nullptr) return;
    const detail::DeviceMemory memory{data_, number_};
    if (pool_)
    {
      detail::invalidate_captured_work(memory);
      pool_->free(data_, size_ * sizeof(T));
    }
    else
      detail::free_memory(memory, ComputeStream::get());
  }

  /// Allocates n elements without setting them.
  [[nodiscard]] static CudaBuffer uninitialized(std::size_t n)
  {
    return CudaBuffer{n, Uninitialized{}};
  }

  /// Allocates n zeros that captured work must not use, unless they are allocated during its
  /// capture. So other captured work stays valid when they are freed.
  [[nodiscard]] static CudaBuffer apart_from_captures(std::size_t n)
  {
    CudaBuffer buffer{n};
    if (!detail::CudaCapture::is_capturing())
      buffer.number_ = std::numeric_limits<std::uint64_t>::max();
    return buffer;
  }

  [[nodiscard]] T* data() { return data_; }
  [[nodiscard]] const T* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }

  /// Appends zeros, or removes elements at the end.
  void resize(std::size_t n)
  {
    if (n == size_) return;
    CudaBuffer other{n, Uninitialized{}};
    const std::size_t kept = n < size_ ? n : size_;
    other.copy(*this, kept);
    other.zero(kept);
    *this = std::move(other);
  }

 private:
  struct Uninitialized
  {
  };

  CudaBuffer(std::size_t n, Uninitialized)
      : size_{n}
  {
    if (n == 0) return;
    const auto memory = allocate(n * sizeof(T));
    data_ = static_cast<T*>(memory.data);
    number_ = memory.number;
  }

  [[nodiscard]] detail::DeviceMemory allocate(std::size_t bytes)
  {
    pool_ = detail::DevicePool::current();
    if (pool_) return {pool_->allocate(bytes), ++detail::CudaCapture::get().allocations};
    detail::keep_pool_memory();
    return detail::allocate_memory(bytes, ComputeStream::get());
  }

  /// Sets element `first` and all later ones to zero.
  void zero(std::size_t first)
  {
    if (first == size_) return;
    detail::require_cuda(
        cudaMemsetAsync(data_ + first, 0, (size_ - first) * sizeof(T), ComputeStream::get()),
        "cudaMemsetAsync", "a buffer of ", size_ * sizeof(T), " bytes");
  }
  void copy(const CudaBuffer& other, std::size_t n)
  {
    if (n == 0) return;
    detail::require_cuda(cudaMemcpyAsync(data_, other.data_, n * sizeof(T),
                                         cudaMemcpyDeviceToDevice, ComputeStream::get()),
                         "cudaMemcpyAsync", "a copy of ", n * sizeof(T), " bytes");
  }

  std::shared_ptr<detail::DevicePool> pool_;  // null: CUDA's pool
  T* data_ = nullptr;
  std::size_t size_ = 0;
  std::uint64_t number_ = 0;  // the number of the allocation
};

}  // namespace cubist::CUBIST_ABI
