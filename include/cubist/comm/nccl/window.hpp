// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Memory of one communicator at the same offset of a symmetric window on all ranks. Through it,
// NCCL's kernels access the peers' memory directly over NVLink, so short collectives take less
// time.
//
// A program's memory is not at the same offsets on all ranks, which NCCL does not check. So the
// data of a call is copied: what it sends goes to the first half of the window, and what it
// receives comes from the second. Both copies are in the communicator's stream, so the next call
// runs after them.
//
// Source: NCCL User Guide, "Window Registration". A window is registered by all ranks together.

#include <cstddef>
#include <utility>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include "cubist/comm/call.hpp"
#include "cubist/comm/nccl/call.hpp"
#include "cubist/comm/nccl/memory.hpp"
#include "cubist/cuda/stream.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// The functions of NCCL 2.27 that register windows. With an earlier NCCL, there is no window.
struct NcclWindowRegistration
{
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
  using Window = ncclWindow_t;
  static ncclResult_t add(ncclComm_t comm, void* data, std::size_t bytes, Window* window)
  {
    return ncclCommWindowRegister(comm, data, bytes, window, NCCL_WIN_COLL_SYMMETRIC);
  }
  static void remove(ncclComm_t comm, Window window) { ncclCommWindowDeregister(comm, window); }
#else
  using Window = void*;
  static ncclResult_t add(ncclComm_t, void*, std::size_t, Window*) { return ncclSuccess; }
  static void remove(ncclComm_t, Window) {}
#endif
};

class NcclWindow
{
 public:
  NcclWindow() = default;
  NcclWindow(NcclWindow&&) = delete;
  ~NcclWindow()
  {
    if (data_ != nullptr) NcclRegistration::free(data_);
  }

  /// Begins to register a window for calls that send and receive up to `bytes`. The window is
  /// complete when the communicator is ready.
  /// @throws CommunicationError
  void begin(ncclComm_t comm, std::size_t bytes, NcclText describe)
  {
    constexpr std::size_t alignment = 4096;  // the alignment of windows
    half_ = (bytes + alignment - 1) / alignment * alignment;
    void* data = nullptr;
    nccl_check(NcclRegistration::allocate(&data, 2 * half_), "ncclMemAlloc", comm, describe);
    data_ = static_cast<std::byte*>(data);
    nccl_check(NcclWindowRegistration::add(comm, data_, 2 * half_, &window_),
               "ncclCommWindowRegister", comm, describe);
  }
  /// Whether there is a window; NCCL may not support one for these ranks.
  [[nodiscard]] bool is_open() const { return window_ != nullptr; }
  /// Lets calls use the window from now on.
  /// @pre all ranks have opened theirs, and do the same
  void use() { in_use_ = true; }
  /// @pre the communicator is ready, and its calls are complete
  void close(ncclComm_t comm) noexcept
  {
    if (window_ != nullptr) NcclWindowRegistration::remove(comm, std::exchange(window_, nullptr));
  }

  /// Whether a call uses the window. All ranks decide this in the same way.
  [[nodiscard]] bool takes(const NcclCall& call, int ranks) const
  {
    const bool has_kernels = call.kind == CallKind::all_reduce ||
                             call.kind == CallKind::all_gather ||
                             call.kind == CallKind::reduce_scatter;
    return in_use_ && has_kernels && call.bytes() * static_cast<std::size_t>(ranks) <= half_;
  }
  /// Enqueues the copy of what is sent.
  /// @returns the call with its buffers in the window
  [[nodiscard]] NcclCall copy_in(const NcclCall& call, int ranks, cudaStream_t stream,
                                 NcclText describe) const
  {
    copy(data_, call.send, call.bytes() * pieces(call, CallKind::reduce_scatter, ranks), stream,
         describe);
    NcclCall inside = call;
    inside.send = data_;
    inside.recv = data_ + half_;
    return inside;
  }
  /// Enqueues the copy of what was received.
  void copy_out(const NcclCall& call, int ranks, cudaStream_t stream, NcclText describe) const
  {
    copy(call.recv, data_ + half_, call.bytes() * pieces(call, CallKind::all_gather, ranks), stream,
         describe);
  }

 private:
  [[nodiscard]] static std::size_t pieces(const NcclCall& call, CallKind of_all, int ranks)
  {
    return call.kind == of_all ? static_cast<std::size_t>(ranks) : 1;
  }
  static void copy(void* to, const void* from, std::size_t bytes, cudaStream_t stream,
                   NcclText describe)
  {
    cuda_check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream),
               "cudaMemcpyAsync", describe);
  }

  std::byte* data_ = nullptr;
  std::size_t half_ = 0;
  NcclWindowRegistration::Window window_ = nullptr;
  bool in_use_ = false;
};

}  // namespace cubist::CUBIST_ABI::detail
