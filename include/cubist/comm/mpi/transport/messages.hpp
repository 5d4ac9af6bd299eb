// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The point-to-point messages of one call. A transfer between two ranks may have any size: it is
// cut into messages that the network carries well and that MPI's 32-bit counts can express.
// Messages are completed in the order in which they were posted.

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <mpi.h>

#include "cubist/comm/mpi/transport/context.hpp"
#include "cubist/core/error.hpp"

namespace cubist::CUBIST_ABI::detail
{

class MpiMessages
{
 public:
  MpiMessages()
  {
    requests_.reserve(64);
    transfers_.reserve(64);
  }

  /// Starts a new call.
  /// @param name the call's name, for errors
  void begin(const MpiContext& context, int tag, const char* name)
  {
    context_ = context;
    tag_ = tag;
    name_ = name;
    barrier_ = false;
    clear();
  }

  /// @pre all messages are complete
  void clear()
  {
    requests_.clear();
    transfers_.clear();
    completed_ = 0;
  }

  [[nodiscard]] const MpiContext& context() const { return context_; }
  [[nodiscard]] std::size_t count() const { return requests_.size(); }
  [[nodiscard]] int tag() const { return tag_; }

  /// Returns "reduce_scatter on rank 3 of 8".
  [[nodiscard]] std::string describe() const
  {
    return name_ + (" on rank " + std::to_string(context_.rank)) + " of " +
           std::to_string(context_.size);
  }

  /// Posts the messages that send `bytes` to a peer: none for an empty transfer, unless
  /// `even_if_empty`.
  void send(int peer, ConstBytes bytes, bool even_if_empty = false)
  {
    post(peer, false, bytes, even_if_empty, &MPI_Isend, "MPI_Isend");
  }

  void receive(int peer, Bytes bytes, bool even_if_empty = false)
  {
    post(peer, true, bytes, even_if_empty, &MPI_Irecv, "MPI_Irecv");
  }

  /// The part of a block that its i-th message carries.
  [[nodiscard]] Bytes part(Bytes block, std::size_t i) const
  {
    const std::size_t offset = i * context_.max_message_bytes;
    return block.subspan(offset, std::min(context_.max_message_bytes, block.size() - offset));
  }

  /// Posts MPI's barrier or, if errors must name the missing ranks, empty messages.
  void barrier()
  {
    if (context_.names_missing_ranks)
    {
      for (int i = 1; i < context_.size; ++i) receive(neighbour(context_, -i), {}, true);
      for (int i = 1; i < context_.size; ++i) send(neighbour(context_, i), {}, true);
      return;
    }
    barrier_ = true;
    check(MPI_Ibarrier(context_.comm, &requests_.emplace_back(MPI_REQUEST_NULL)), "MPI_Ibarrier");
  }

  /// Calls on_complete(i) for each message that completes, in order; it may post more messages.
  /// Returns whether all are complete.
  /// @throws CommunicationError for MPI's errors, CollectiveMismatch for messages of other sizes
  template <class F>
  bool advance(F on_complete)
  {
    for (; completed_ < requests_.size(); ++completed_)
    {
      int complete = 0;
      MPI_Status status;
      check(MPI_Test(&requests_[completed_], &complete, &status), "MPI_Test");
      if (complete == 0) return false;
      if (tag_ == 0 || !context_.tags.have_checksum()) check_size(completed_, status);
      on_complete(completed_);
    }
    return true;
  }

  /// The peers of pending receives, or of pending sends. MPI's own barrier may wait for any peer.
  [[nodiscard]] std::vector<int> pending_peers(bool receives)
  {
    std::vector<int> peers;
    if (barrier_ && receives && completed_ < requests_.size())
      for (int i = 1; i < context_.size; ++i) peers.push_back(neighbour(context_, i));
    std::size_t i = 0;
    for (const auto& transfer : transfers_)
    {
      bool is_complete = true;
      for (; i < transfer.end; ++i)
      {
        int complete = 1;
        if (requests_[i] != MPI_REQUEST_NULL)
          MPI_Request_get_status(requests_[i], &complete, MPI_STATUS_IGNORE);
        is_complete = is_complete && complete != 0;
      }
      const bool known = std::find(peers.begin(), peers.end(), transfer.peer) != peers.end();
      if (!is_complete && transfer.receives == receives && !known) peers.push_back(transfer.peer);
    }
    return peers;
  }

  /// Returns a peer that has sent a message of another call with this call's number, and the tag of
  /// that message; {-1, 0} if there is none.
  [[nodiscard]] std::pair<int, int> find_mismatch() const
  {
    if (tag_ == 0) return {-1, 0};
    for (int peer = 0; peer < context_.size; ++peer)
    {
      int found = 0;
      MPI_Status status;
      check(MPI_Iprobe(peer, MPI_ANY_TAG, context_.comm, &found, &status), "MPI_Iprobe");
      if (found != 0 && context_.tags.mismatch(status.MPI_TAG, tag_)) return {peer, status.MPI_TAG};
    }
    return {-1, 0};
  }

  /// Cancels what MPI has not matched yet; the rest stays pending.
  void cancel() noexcept
  {
    if (barrier_) return release();  // MPI cannot cancel a collective
    for (auto& request : requests_)
      if (request != MPI_REQUEST_NULL) MPI_Cancel(&request);
  }

  /// How many messages are still pending, after `cancel`.
  std::size_t count_pending() noexcept
  {
    for (auto& request : requests_)
    {
      int complete = 0;
      if (request != MPI_REQUEST_NULL) MPI_Test(&request, &complete, MPI_STATUS_IGNORE);
    }
    std::erase(requests_, MPI_REQUEST_NULL);
    transfers_.clear();
    return requests_.size();
  }

  /// Leaves pending messages to MPI.
  void release() noexcept
  {
    if (!barrier_)
      for (auto& request : requests_)
        if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
    clear();
  }

 private:
  /// Consecutive messages from or to one peer, up to message `end`.
  struct Transfer
  {
    int peer = 0;
    bool receives = false;
    std::size_t size = 0;
    std::size_t end = 0;
  };

  /// @param function MPI_Isend or MPI_Irecv
  template <class Span, class Function>
  void post(int peer, bool receives, Span bytes, bool even_if_empty, Function function,
            const char* name)
  {
    const std::size_t size = bytes.size();
    if (size == 0 && !even_if_empty) return;
    auto& transfer = transfers_.emplace_back(Transfer{peer, receives, size, requests_.size()});
    std::size_t offset = 0;
    do
    {
      ++transfer.end;
      const std::size_t count = std::min(context_.max_message_bytes, size - offset);
      check(function(bytes.data() + offset, static_cast<int>(count), MPI_BYTE, peer, tag_,
                     context_.comm, &requests_.emplace_back(MPI_REQUEST_NULL)),
            name);
      offset += context_.max_message_bytes;
    } while (offset < size);
  }

  /// @throws CollectiveMismatch if message i is shorter than expected
  void check_size(std::size_t i, const MPI_Status& status) const
  {
    const auto transfer =
        std::ranges::find_if(transfers_, [&](const Transfer& t) { return i < t.end; });
    if (transfer == transfers_.end() || !transfer->receives) return;
    int got = 0;
    MPI_Get_count(&status, MPI_BYTE, &got);
    const std::size_t last =
        transfer->size == 0 ? 0 : (transfer->size - 1) % context_.max_message_bytes + 1;
    const std::size_t expected = i + 1 == transfer->end ? last : context_.max_message_bytes;
    if (static_cast<std::size_t>(got) == expected) return;
    throw CollectiveMismatch{describe() + " got " + std::to_string(got) + " bytes from rank " +
                             std::to_string(job_ranks(context_, {transfer->peer})[0]) +
                             ", but expects " + std::to_string(expected) +
                             ", so its data is incomplete; let all ranks make the same calls with "
                             "the same sizes"};
  }

  void check(int code, const char* function) const
  {
    if (code != MPI_SUCCESS) mpi_check(code, function, describe());
  }

  MpiContext context_;
  int tag_ = 0;
  const char* name_ = "a message";
  std::vector<MPI_Request> requests_;
  std::vector<Transfer> transfers_;
  std::size_t completed_ = 0;
  bool barrier_ = false;
};

}  // namespace cubist::CUBIST_ABI::detail
