// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// An owned, non-blocking NCCL communicator: a call may return before it is complete, and the caller
// polls until the communicator is ready. The destructor aborts a communicator that was not
// destroyed, which ends its kernels on the device.

#include <atomic>
#include <utility>

#include <nccl.h>

#include "cubist/comm/nccl/call.hpp"

namespace cubist::CUBIST_ABI::detail
{

class NcclHandle
{
 public:
  NcclHandle() = default;
  NcclHandle(NcclHandle&&) = delete;
  ~NcclHandle() { abort(); }

  [[nodiscard]] static ncclConfig_t config()
  {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    return config;
  }

  /// NCCL stores the communicator here, possibly after the call that creates it has returned.
  [[nodiscard]] ncclComm_t* address() { return &comm_; }
  /// Null until NCCL has stored it.
  [[nodiscard]] ncclComm_t get() const
  {
    return std::atomic_ref{const_cast<ncclComm_t&>(comm_)}.load(std::memory_order_acquire);
  }

  /// Whether NCCL accepts the next call: no earlier one is in progress.
  /// @throws CommunicationError, PeerFailed for an asynchronous error of NCCL
  [[nodiscard]] bool is_ready(NcclText describe) const
  {
    const auto comm = get();
    if (comm == nullptr) return false;
    ncclResult_t state = ncclSuccess;
    nccl_check(ncclCommGetAsyncError(comm, &state), "ncclCommGetAsyncError", comm, describe);
    nccl_check(state, "NCCL", comm, describe);
    return state == ncclSuccess;
  }

  /// Starts the collective that ends the communicator, which is ready when its pending calls are
  /// complete.
  [[nodiscard]] bool finalize()
  {
    const auto code = ncclCommFinalize(get());
    return code == ncclSuccess || code == ncclInProgress;
  }
  /// @pre is_ready() after finalize()
  void destroy() noexcept
  {
    if (const auto comm = std::exchange(comm_, nullptr)) ncclCommDestroy(comm);
  }
  void abort() noexcept
  {
    if (get() == nullptr) return;
    ncclCommAbort(std::exchange(comm_, nullptr));
  }

 private:
  ncclComm_t comm_ = nullptr;
};

/// RAII: a group of NCCL calls. `end` issues them; an exception discards them as far as NCCL can.
template <class Describe>
class NcclGroupScope
{
 public:
  explicit NcclGroupScope(Describe describe)
      : doing_{std::move(describe)}
  {
    nccl_check(ncclGroupStart(), "ncclGroupStart", nullptr, doing_);
  }
  NcclGroupScope(NcclGroupScope&&) = delete;
  ~NcclGroupScope()
  {
    if (!ended_) ncclGroupEnd();
  }

  void end()
  {
    ended_ = true;
    nccl_check(ncclGroupEnd(), "ncclGroupEnd", nullptr, doing_);
  }

 private:
  Describe doing_;
  bool ended_ = false;
};

}  // namespace cubist::CUBIST_ABI::detail
