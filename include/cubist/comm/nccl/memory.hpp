// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Device memory that is registered with NCCL. It is allocated by ncclMemAlloc and registered with
// the communicators that use it, so that NCCL may send and reduce it without an internal copy
// (zero-copy).
//
// ncclMemAlloc is slow and rounds up to 2 MiB, so memory is kept until the pool ends. Buffers of up
// to 1 MiB share segments of 32 MiB, and each larger buffer has its own segment. Freed memory is
// reused for buffers of the same size. Before a communicator issues a call, it registers the
// segments that are new to it; this is not a collective. It deregisters them before it is
// finalized.
//
// Source: NCCL User Guide, "User Buffer Registration": if one rank passes registered memory to a
// call, all ranks must.

#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include "cubist/comm/nccl/call.hpp"
#include "cubist/core/error.hpp"
#include "cubist/cuda/pool.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// The functions of NCCL 2.19 that register memory. With an earlier NCCL, they fail.
struct NcclRegistration
{
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 19, 0)
  static ncclResult_t allocate(void** data, std::size_t bytes) { return ncclMemAlloc(data, bytes); }
  static void free(void* data) { ncclMemFree(data); }
  static ncclResult_t add(ncclComm_t comm, void* data, std::size_t bytes, void** handle)
  {
    return ncclCommRegister(comm, data, bytes, handle);
  }
  static void remove(ncclComm_t comm, void* handle) { ncclCommDeregister(comm, handle); }
#else
  static ncclResult_t allocate(void**, std::size_t) { return ncclInvalidUsage; }
  static void free(void*) {}
  static ncclResult_t add(ncclComm_t, void*, std::size_t, void**) { return ncclInvalidUsage; }
  static void remove(ncclComm_t, void*) {}
#endif
};

class NcclMemory : public DevicePool
{
 public:
  struct Segment
  {
    std::byte* data;
    std::size_t bytes;
  };

  static constexpr std::size_t segment_bytes = std::size_t{32} << 20;

  /// @param stream the stream of the work that uses the memory
  explicit NcclMemory(cudaStream_t stream = cudaStreamPerThread)
      : stream_{stream}
  {
  }
  ~NcclMemory() override
  {
    if (segments_.empty()) return;
    cudaStreamSynchronize(stream_);
    for (const auto& segment : segments_) NcclRegistration::free(segment.data);
  }

  /// Allocates the first segment.
  /// @throws DeviceError if NCCL cannot
  void reserve()
  {
    if (segments_.empty()) add_small_segment();
  }

  [[nodiscard]] void* allocate(std::size_t bytes) override
  {
    const std::size_t size = rounded(bytes);
    void* data = nullptr;
    if (auto& same = free_[size]; !same.empty())
    {
      data = same.back();
      same.pop_back();
    }
    else if (size > small_bytes)
      data = add_segment(size);
    else
    {
      if (unused_bytes_ < size) add_small_segment();
      data = std::exchange(unused_, unused_ + size);
      unused_bytes_ -= size;
    }
    if (is_capturing()) captured_.insert(data);
    return data;
  }
  void free(void* data, std::size_t bytes) noexcept override
  {
    // A graph uses the addresses that it was captured with whenever it is launched.
    if (captured_.contains(data) || is_capturing()) return;
    free_[rounded(bytes)].push_back(data);
  }

  [[nodiscard]] const std::vector<Segment>& segments() const { return segments_; }
  [[nodiscard]] bool contains(const void* data) const
  {
    const auto* const p = static_cast<const std::byte*>(data);
    const auto after = ends_.upper_bound(p);
    return after != ends_.end() && p >= after->second;
  }

 private:
  static constexpr std::size_t small_bytes = std::size_t{1} << 20;

  /// Rounds up to a multiple of 512 bytes or, if that adds little, of the 2 MiB of ncclMemAlloc.
  [[nodiscard]] static std::size_t rounded(std::size_t bytes)
  {
    const std::size_t unit = bytes > small_bytes ? std::size_t{2} << 20 : 512;
    return (bytes + unit - 1) / unit * unit;
  }
  [[nodiscard]] bool is_capturing() const
  {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    return cudaStreamIsCapturing(stream_, &status) == cudaSuccess &&
           status != cudaStreamCaptureStatusNone;
  }

  void add_small_segment()
  {
    unused_ = add_segment(segment_bytes);
    unused_bytes_ = segment_bytes;
  }
  std::byte* add_segment(std::size_t bytes)
  {
    void* data = nullptr;
    const auto code = NcclRegistration::allocate(&data, bytes);
    require<DeviceError>(
        code == ncclSuccess, "ncclMemAlloc failed (", ncclGetErrorString(code), ") for ", bytes,
        " bytes, so no more memory can be registered; use more devices or smaller matrices, or "
        "turn registered buffers off, because they are not reused for other sizes");
    auto* const begin = static_cast<std::byte*>(data);
    segments_.push_back({begin, bytes});
    ends_.emplace(begin + bytes, begin);
    return begin;
  }

  cudaStream_t stream_;
  std::vector<Segment> segments_;
  std::map<const std::byte*, const std::byte*> ends_;  // the beginning of each segment, by its end
  std::map<std::size_t, std::vector<void*>> free_;     // free memory by size
  std::byte* unused_ = nullptr;                        // the rest of the last small segment
  std::size_t unused_bytes_ = 0;
  std::set<void*> captured_;  // allocated while the stream was captured: never reused
};

/// The segments that one communicator has registered.
class NcclRegistrations
{
 public:
  /// @param memory null if nothing is registered
  explicit NcclRegistrations(std::shared_ptr<NcclMemory> memory)
      : memory_{std::move(memory)}
  {
  }

  [[nodiscard]] bool empty() const { return handles_.empty(); }

  /// Registers the segments that are new.
  /// @pre the communicator is ready
  /// @throws CommunicationError
  void update(ncclComm_t comm, NcclText describe)
  {
    if (!memory_) return;
    const auto& segments = memory_->segments();
    while (handles_.size() < segments.size())
    {
      const auto& segment = segments[handles_.size()];
      void* handle = nullptr;
      nccl_check(NcclRegistration::add(comm, segment.data, segment.bytes, &handle),
                 "ncclCommRegister", comm, describe);
      handles_.push_back(handle);
    }
  }
  /// @pre the communicator is ready, and its calls are complete
  void clear(ncclComm_t comm) noexcept
  {
    for (void* const handle : std::exchange(handles_, {}))
      if (handle != nullptr) NcclRegistration::remove(comm, handle);
  }

  /// Checks that the buffers of a call are registered, as on the other ranks.
  /// @throws ArgumentError
  void check(const NcclCall& call, NcclText describe) const
  {
    if (!memory_) return;
    for (const void* const data : {call.send, static_cast<const std::byte*>(call.recv)})
      require<ArgumentError>(
          data == nullptr || memory_->contains(data),
          "got a buffer that this rank's NCCL memory "
          "does not contain for ",
          describe(),
          ", but other ranks pass registered memory, and "
          "NCCL does not define a call with both; allocate the buffer with the engine of this "
          "launch, or leave out the option registered_buffers");
  }

 private:
  std::shared_ptr<NcclMemory> memory_;
  std::vector<void*> handles_;  // handles of the first segments; null if NCCL registers nothing
};

}  // namespace cubist::CUBIST_ABI::detail
