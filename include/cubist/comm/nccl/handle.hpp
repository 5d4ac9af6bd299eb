// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// NCCL's communicator, owned, in its mode that does not block: NCCL goes on by itself after a call
// has returned, and is asked until it has settled. One that is dropped is aborted, which ends what
// runs on the device.

#include <atomic>
#include <utility>

#include <nccl.h>

#include "cubist/comm/nccl/call.hpp"

namespace cubist::detail
{

class NcclHandle
{
 public:
  NcclHandle() = default;
  NcclHandle(const NcclHandle&) = delete;
  NcclHandle& operator=(const NcclHandle&) = delete;
  ~NcclHandle() { abort(); }

  [[nodiscard]] static ncclConfig_t config()
  {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    return config;
  }

  /// Where NCCL puts the communicator, perhaps when the call that makes it has long returned.
  [[nodiscard]] ncclComm_t* room() { return &comm_; }
  /// Null until NCCL has put it there.
  [[nodiscard]] ncclComm_t get() const
  {
    return std::atomic_ref{const_cast<ncclComm_t&>(comm_)}.load(std::memory_order_acquire);
  }

  /// Whether NCCL has done with what it was told, and takes the next call.
  /// @throws CommunicationError, PeerFailed for what it has met meanwhile
  template <class Doing>
  [[nodiscard]] bool is_settled(Doing doing) const
  {
    const auto comm = get();
    if (comm == nullptr) return false;
    ncclResult_t state = ncclSuccess;
    nccl_check(ncclCommGetAsyncError(comm, &state), "ncclCommGetAsyncError", comm, doing);
    nccl_check(state, "NCCL", comm, doing);
    return state == ncclSuccess;
  }

  /// Begins to end it in peace, which all ranks do; then it is settled. Calls under way are
  /// completed.
  [[nodiscard]] bool finalize()
  {
    const auto code = ncclCommFinalize(get());
    return code == ncclSuccess || code == ncclInProgress;
  }
  /// @pre finalize() has settled
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

/// Calls that NCCL gets as one: `end` gives them, and an exception takes them back as far as NCCL
/// can.
template <class Doing>
class NcclGrouped
{
 public:
  explicit NcclGrouped(Doing doing) : doing_{std::move(doing)}
  {
    nccl_check(ncclGroupStart(), "ncclGroupStart", nullptr, doing_);
  }
  NcclGrouped(const NcclGrouped&) = delete;
  NcclGrouped& operator=(const NcclGrouped&) = delete;
  ~NcclGrouped()
  {
    if (!ended_) ncclGroupEnd();
  }

  void end()
  {
    ended_ = true;
    nccl_check(ncclGroupEnd(), "ncclGroupEnd", nullptr, doing_);
  }

 private:
  Doing doing_;
  bool ended_ = false;
};

}  // namespace cubist::detail
