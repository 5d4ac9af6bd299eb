// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// How MPI processes tell each other of a failure: a message to every other rank, on a communicator
// for nothing but that. Who waits for something else looks for it now and then.

#include <algorithm>
#include <array>
#include <climits>
#include <cstddef>
#include <list>
#include <string>

#include <mpi.h>

#include "cubist/comm/mpi/messages.hpp"

namespace cubist::detail
{

class MpiFailures
{
 public:
  /// What a rank tells: its error, or, before that is known, that it left a call.
  enum class Of : int
  {
    error,
    leaving
  };

  explicit MpiFailures(MPI_Comm comm) : comm_{comm}
  {
    MPI_Comm_rank(comm, &rank_);
    MPI_Comm_size(comm, &size_);
    await();
  }
  MpiFailures(const MpiFailures&) = delete;
  MpiFailures& operator=(const MpiFailures&) = delete;
  ~MpiFailures()
  {
    MPI_Cancel(&next_);
    MPI_Request_free(&next_);
  }

  [[nodiscard]] MPI_Comm comm() const { return comm_; }
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }

  void tell(const std::string& message, Of of)
  {
    auto& text = told_.emplace_back(message.substr(0, text_.size() - 1));
    for (int peer = 0; peer < size_; ++peer)
      if (peer != rank_)
      {
        MPI_Request sent = MPI_REQUEST_NULL;
        MPI_Isend(text.c_str(), static_cast<int>(text.size() + 1), MPI_CHAR, peer,
                  static_cast<int>(of), comm_, &sent);
        MPI_Request_free(&sent);
      }
  }

  /// Looks for all the news there is, by calls of MPI; says whether any has ever come.
  bool look()
  {
    MPI_Status status;
    while (arrived(status))
    {
      const int teller = status.MPI_TAG * size_ + status.MPI_SOURCE;
      if (teller < teller_) text_ = arriving_;
      teller_ = std::min(teller_, teller);
      await();
    }
    return bad();
  }
  /// Whether any has come.
  [[nodiscard]] bool bad() const { return teller_ != INT_MAX; }
  /// Whether a rank's error has come, and not only that it left a call.
  [[nodiscard]] bool is_error() const { return teller_ < size_; }
  /// The lowest rank that told of its error, or else that it left a call.
  /// @pre bad()
  [[nodiscard]] int teller() const { return teller_ % size_; }
  /// What it told.
  [[nodiscard]] const char* text() const { return text_.data(); }

 private:
  static void check(int code) { mpi_check(code, "MPI", "the news between ranks"); }

  [[nodiscard]] bool arrived(MPI_Status& status)
  {
    int flag = 0;
    check(MPI_Test(&next_, &flag, &status));
    return flag != 0;
  }

  void await()
  {
    check(MPI_Irecv(arriving_.data(), static_cast<int>(arriving_.size()), MPI_CHAR, MPI_ANY_SOURCE,
                    MPI_ANY_TAG, comm_, &next_));
  }

  MPI_Comm comm_;
  int rank_ = 0;
  int size_ = 1;
  std::array<char, 2048> text_{};
  std::array<char, 2048> arriving_{};
  MPI_Request next_ = MPI_REQUEST_NULL;
  int teller_ = INT_MAX;         // its rank, + size_ if it left a call
  std::list<std::string> told_;  // by this rank; MPI may still be sending it
};

}  // namespace cubist::detail
