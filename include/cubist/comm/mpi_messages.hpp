// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Messages between MPI processes, of any length: cut into pieces that the network carries well and
// that MPI's 32-bit counts can name, and completed in the order in which they were posted.

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <mpi.h>

#include "cubist/core/error.hpp"

namespace cubist::detail
{

/// @throws CommunicationError with MPI's text unless `code` is MPI_SUCCESS
inline void mpi_check(int code, const char* function, std::string_view during)
{
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "unknown error";
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw CommunicationError{
      std::string{during} + " failed in " + function + " (" + text +
      "), so its data is incomplete; let all ranks make the same calls with the same sizes, and "
      "look at the network if they do"};
}

/// Where messages travel.
struct MpiPlace
{
  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0;
  int size = 1;
  /// The longest message in bytes, a multiple of every element's size.
  std::size_t message_bytes = 0;
};

/// Bytes of a buffer, to send and to receive.
struct Part
{
  const std::byte* data = nullptr;
  std::size_t size = 0;
};
struct Room
{
  std::byte* data = nullptr;
  std::size_t size = 0;
};

class MpiMessages
{
 public:
  MpiMessages() { requests_.reserve(64); }

  /// Forgets what was posted before; messages bear `tag`, errors name what they are part `of`.
  void begin(const MpiPlace& place, int tag, const char* of)
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
    done_ = 0;
  }

  [[nodiscard]] std::size_t count() const { return requests_.size(); }

  /// "reduce_scatter on rank 3 of 8"
  [[nodiscard]] std::string describe() const
  {
    return of_ + (" on rank " + std::to_string(place_.rank)) + " of " + std::to_string(place_.size);
  }

  void send(int peer, Part part)
  {
    for_each_message(part.size, [&](std::size_t offset, int size, MPI_Request& request) {
      check(MPI_Isend(part.data + offset, size, MPI_BYTE, peer, tag_, place_.comm, &request),
            "MPI_Isend");
    });
  }

  void receive(int peer, Room room)
  {
    for_each_message(room.size, [&](std::size_t offset, int size, MPI_Request& request) {
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
  /// @throws CommunicationError for what MPI reports
  template <class F>
  bool advance(F arrived)
  {
    for (; done_ < requests_.size(); ++done_)
    {
      int complete = 0;
      check(MPI_Test(&requests_[done_], &complete, MPI_STATUS_IGNORE), "MPI_Test");
      if (complete == 0) return false;
      arrived(done_);
    }
    return true;
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
  template <class F>
  void for_each_message(std::size_t size, F f)
  {
    for (std::size_t offset = 0; offset < size; offset += place_.message_bytes)
      f(offset, static_cast<int>(std::min(place_.message_bytes, size - offset)),
        requests_.emplace_back(MPI_REQUEST_NULL));
  }

  void check(int code, const char* function) const
  {
    if (code != MPI_SUCCESS) mpi_check(code, function, describe());
  }

  MpiPlace place_;
  int tag_ = 0;
  const char* of_ = "a message";
  std::vector<MPI_Request> requests_;
  std::size_t done_ = 0;
  bool barrier_ = false;
};

}  // namespace cubist::detail
