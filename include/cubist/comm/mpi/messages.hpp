// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Messages between MPI processes, of any length: cut into pieces that the network carries well and
// that MPI's 32-bit counts can name, and completed in the order in which they were posted.

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <mpi.h>

#include "cubist/comm/mpi/blocks.hpp"
#include "cubist/comm/mpi/context.hpp"
#include "cubist/core/error.hpp"

namespace cubist::detail
{

class MpiMessages
{
 public:
  MpiMessages()
  {
    requests_.reserve(64);
    parts_.reserve(64);
  }

  /// Forgets what was posted before; messages bear `tag`, errors name what they are part `of`.
  void begin(const MpiContext& place, int tag, const char* of)
  {
    place_ = place;
    tag_ = tag;
    of_ = of;
    barrier_ = false;
    clear();
  }

  /// @pre all messages have been completed
  void clear()
  {
    requests_.clear();
    parts_.clear();
    done_ = 0;
  }

  [[nodiscard]] std::size_t count() const { return requests_.size(); }
  [[nodiscard]] int tag() const { return tag_; }

  /// "reduce_scatter on rank 3 of 8"
  [[nodiscard]] std::string describe() const
  {
    return of_ + (" on rank " + std::to_string(place_.rank)) + " of " + std::to_string(place_.size);
  }

  /// Empty parts take no message, unless they are signals.
  void send(int peer, Part part, bool signal = false)
  {
    for_each_message(
        peer, false, part.size, signal, [&](std::size_t offset, int size, MPI_Request& request) {
          check(MPI_Isend(part.data + offset, size, MPI_BYTE, peer, tag_, place_.comm, &request),
                "MPI_Isend");
        });
  }

  void receive(int peer, Room room, bool signal = false)
  {
    for_each_message(
        peer, true, room.size, signal, [&](std::size_t offset, int size, MPI_Request& request) {
          check(MPI_Irecv(room.data + offset, size, MPI_BYTE, peer, tag_, place_.comm, &request),
                "MPI_Irecv");
        });
  }

  void barrier()
  {
    barrier_ = true;
    check(MPI_Ibarrier(place_.comm, &requests_.emplace_back(MPI_REQUEST_NULL)), "MPI_Ibarrier");
  }

  /// Calls arrived(i) for each message that is complete, in their order; says whether all are.
  /// `arrived` may post more.
  /// @throws CommunicationError for what MPI reports, CollectiveMismatch for messages of other
  /// sizes
  template <class F>
  bool advance(F arrived)
  {
    for (; done_ < requests_.size(); ++done_)
    {
      int complete = 0;
      MPI_Status status;
      check(MPI_Test(&requests_[done_], &complete, &status), "MPI_Test");
      if (complete == 0) return false;
      if (tag_ == 0 || !place_.tags.know_sizes()) check_size(done_, status);
      arrived(done_);
    }
    return true;
  }

  /// The ranks whose messages have not come, or which have not taken theirs.
  [[nodiscard]] std::vector<int> awaited(bool incoming)
  {
    std::vector<int> ranks;
    std::size_t i = 0;
    for (const auto& part : parts_)
    {
      bool all = true;
      for (; i < part.end; ++i)
      {
        int complete = 1;
        if (requests_[i] != MPI_REQUEST_NULL)
          MPI_Request_get_status(requests_[i], &complete, MPI_STATUS_IGNORE);
        all = all && complete != 0;
      }
      const bool known = std::find(ranks.begin(), ranks.end(), part.peer) != ranks.end();
      if (!all && part.incoming == incoming && !known) ranks.push_back(part.peer);
    }
    return ranks;
  }

  /// A rank that has sent a message of another call with this one's number, and its tag; {-1, 0} if
  /// there is none.
  [[nodiscard]] std::pair<int, int> stranger() const
  {
    if (tag_ == 0) return {-1, 0};
    for (int peer = 0; peer < place_.size; ++peer)
    {
      int found = 0;
      MPI_Status status;
      check(MPI_Iprobe(peer, MPI_ANY_TAG, place_.comm, &found, &status), "MPI_Iprobe");
      if (found != 0 && place_.tags.differ(status.MPI_TAG, tag_)) return {peer, status.MPI_TAG};
    }
    return {-1, 0};
  }

  /// Takes back what peers have not sent yet. What is under way already stays so.
  void cancel() noexcept
  {
    if (barrier_) return forget();  // which MPI can't take back
    for (auto& request : requests_)
      if (request != MPI_REQUEST_NULL) MPI_Cancel(&request);
  }

  /// How many are still under way; none arrives any more.
  std::size_t under_way() noexcept
  {
    for (auto& request : requests_)
    {
      int complete = 0;
      if (request != MPI_REQUEST_NULL) MPI_Test(&request, &complete, MPI_STATUS_IGNORE);
    }
    std::erase(requests_, MPI_REQUEST_NULL);
    parts_.clear();
    return requests_.size();
  }

  /// Leaves what is under way to MPI.
  void forget() noexcept
  {
    if (!barrier_)
      for (auto& request : requests_)
        if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
    clear();
  }

 private:
  /// What was posted for one peer: the messages up to `end`.
  struct Posted
  {
    int peer = 0;
    bool incoming = false;
    std::size_t size = 0;
    std::size_t end = 0;
  };

  template <class F>
  void for_each_message(int peer, bool incoming, std::size_t size, bool signal, F f)
  {
    if (size == 0 && !signal) return;
    auto& part = parts_.emplace_back(Posted{peer, incoming, size, requests_.size()});
    std::size_t offset = 0;
    do
    {
      ++part.end;
      f(offset, static_cast<int>(std::min(place_.message_bytes, size - offset)),
        requests_.emplace_back(MPI_REQUEST_NULL));
      offset += place_.message_bytes;
    } while (offset < size);
  }

  /// @throws CollectiveMismatch if message i is shorter than its room
  void check_size(std::size_t i, const MPI_Status& status) const
  {
    const auto part =
        std::find_if(parts_.begin(), parts_.end(), [&](const Posted& p) { return i < p.end; });
    if (part == parts_.end() || !part->incoming) return;
    int got = 0;
    MPI_Get_count(&status, MPI_BYTE, &got);
    const std::size_t last = part->size == 0 ? 0 : (part->size - 1) % place_.message_bytes + 1;
    const std::size_t size = i + 1 == part->end ? last : place_.message_bytes;
    if (static_cast<std::size_t>(got) == size) return;
    throw CollectiveMismatch{describe() + " got " + std::to_string(got) + " bytes from rank " +
                             std::to_string(in_world(place_, {part->peer})[0]) +
                             ", but has room for " + std::to_string(size) +
                             ", so its data is incomplete; let all ranks make the same calls with "
                             "the same sizes"};
  }

  void check(int code, const char* function) const
  {
    if (code != MPI_SUCCESS) mpi_check(code, function, describe());
  }

  MpiContext place_;
  int tag_ = 0;
  const char* of_ = "a message";
  std::vector<MPI_Request> requests_;
  std::vector<Posted> parts_;
  std::size_t done_ = 0;
  bool barrier_ = false;
};

}  // namespace cubist::detail
