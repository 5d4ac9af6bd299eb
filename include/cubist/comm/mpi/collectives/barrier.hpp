// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Barriers. Ranks that share memory use a shared-memory barrier (mpi/shared_barrier.hpp), which
// also exchanges the block addresses of `expose`. Its payload holds the tag of the call, so that a
// mismatched peer is detected. Other ranks exchange empty messages, or call MPI_Ibarrier.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "cubist/comm/mpi/collectives/blocks.hpp"
#include "cubist/comm/mpi/context.hpp"
#include "cubist/comm/mpi/messages.hpp"
#include "cubist/comm/mpi/shared_barrier.hpp"

namespace cubist::detail
{

class MpiSharedBarrierCall
{
 public:
  /// A peer whose call has another tag.
  struct Mismatch
  {
    int rank = -1;  // -1 for none
    int tag = 0;
  };

  /// The bytes that a rank can pass beside the tag.
  static constexpr std::size_t max_bytes = sizeof(BarrierPayload) - sizeof(std::uint64_t);

  /// Takes the number of the rank's next barrier.
  /// @param send the bytes to pass to every rank
  /// @param receive the bytes of all ranks, in their order
  /// @pre send.size() <= max_bytes
  void begin(MpiSharedBarrier& barrier, int tag, ConstBytes send, std::byte* receive)
  {
    barrier_ = &barrier;
    number_ = barrier.next_barrier();
    tag_ = tag;
    send_ = send;
    receive_ = receive;
    arrived_ = false;
  }

  /// Returns whether all ranks have arrived; then this rank has received their bytes.
  /// @param mismatch set if a peer has another tag
  bool advance(Mismatch& mismatch)
  {
    if (!arrived_)
    {
      BarrierPayload payload{static_cast<std::uint64_t>(tag_)};
      if (!send_.empty()) std::memcpy(&payload[1], send_.data(), send_.size());
      arrived_ = barrier_->try_arrive(number_, payload);
    }
    if (!arrived_ || !barrier_->is_complete(number_)) return false;
    barrier_->read_payloads(number_, [&](std::size_t rank, const BarrierPayload& payload) {
      const auto tag = static_cast<int>(payload[0]);
      if (tag != tag_) mismatch = {static_cast<int>(rank), tag};
      if (!send_.empty()) std::memcpy(receive_ + rank * send_.size(), &payload[1], send_.size());
    });
    return true;
  }

  /// The ranks that have not arrived.
  [[nodiscard]] std::vector<int> missing_ranks() const { return barrier_->missing_ranks(number_); }

 private:
  MpiSharedBarrier* barrier_ = nullptr;
  std::uint64_t number_ = 0;
  int tag_ = 0;
  ConstBytes send_;
  std::byte* receive_ = nullptr;
  bool arrived_ = false;
};

/// A barrier by messages.
inline void start_barrier(MpiMessages& messages)
{
  const MpiContext& context = messages.context();
  if (!context.names_missing_ranks) return messages.barrier();
  for (int i = 1; i < context.size; ++i) messages.receive(neighbour(context, -i), {}, true);
  for (int i = 1; i < context.size; ++i) messages.send(neighbour(context, i), {}, true);
}

}  // namespace cubist::detail
