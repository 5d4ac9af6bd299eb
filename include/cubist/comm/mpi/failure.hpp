// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Tells all ranks of a failure. A rank that fails sends a message to every other rank, on a
// communicator that carries nothing else; ranks that wait poll for such messages. If that is
// impossible, the job is aborted.

#include <algorithm>
#include <array>
#include <chrono>
#include <climits>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <list>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include <mpi.h>

#include "cubist/comm/backoff.hpp"
#include "cubist/comm/mpi/transport/context.hpp"

namespace cubist::CUBIST_ABI::detail
{

[[nodiscard]] inline std::string timeout_message(std::chrono::milliseconds limit,
                                                 const std::string& what,
                                                 const std::string& reason = "")
{
  return "waited for " + std::to_string(limit.count()) + " ms in " + what +
         ", so the time limit ran out" + reason +
         "; fix what delays them, or give launch a longer time limit";
}

/// Prints the message, and ends the processes of all ranks.
[[noreturn]] inline void abort_job(const std::string& message)
{
  std::fflush(stdout);
  std::fprintf(stderr, "cubist: %s\n", message.c_str());
  std::fflush(stderr);
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

/// RAII: aborts the job with `message` unless it is destroyed within `limit`. It guards blocking
/// MPI calls.
class AbortTimer
{
 public:
  AbortTimer(std::chrono::milliseconds limit, std::string message)
      : thread_{[limit, message = std::move(message)](const std::stop_token& stop) {
          std::mutex mutex;
          std::condition_variable_any never;
          std::unique_lock lock{mutex};
          never.wait_for(lock, stop, limit, [] { return false; });
          if (!stop.stop_requested()) abort_job(message);
        }}
  {
  }

 private:
  std::jthread thread_;
};

class MpiFailures
{
 public:
  /// What a notification says: the rank's error, or, before that is known, that the rank abandoned
  /// a call.
  enum class Kind : int
  {
    error,
    abandoned_call
  };

  explicit MpiFailures(MPI_Comm comm)
      : comm_{comm}
  {
    MPI_Comm_rank(comm, &rank_);
    MPI_Comm_size(comm, &size_);
    post_receive();
  }
  MpiFailures(MpiFailures&&) = delete;
  ~MpiFailures()
  {
    MPI_Cancel(&receive_);
    MPI_Request_free(&receive_);
  }

  [[nodiscard]] MPI_Comm comm() const { return comm_; }
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }

  /// Tells every other rank that this one failed; does not wait.
  void broadcast_error(const std::string& what)
  {
    broadcast("rank " + std::to_string(rank_) + " failed (" + what +
                  "), so the calls of other ranks cannot complete; fix that rank's error",
              Kind::error);
  }

  /// Sends a notification to every other rank; does not wait.
  void broadcast(const std::string& message, Kind kind)
  {
    mark_broken();
    auto& text = sent_.emplace_back(1, static_cast<char>(kind));
    text += message.substr(0, message_.size() - 2);
    for (int peer = 0; peer < size_; ++peer)
      if (peer != rank_)
      {
        MPI_Request request = MPI_REQUEST_NULL;
        MPI_Isend(text.c_str(), static_cast<int>(text.size() + 1), MPI_CHAR, peer, tag, comm_,
                  &request);
        MPI_Request_free(&request);
      }
  }

  /// Receives all notifications that have arrived; calls MPI. Returns `any()`.
  bool poll()
  {
    MPI_Status status;
    const auto has_arrived = [&] {
      int flag = 0;
      check(MPI_Test(&receive_, &flag, &status), "MPI_Test");
      return flag != 0;
    };
    while (has_arrived())
    {
      const int priority = incoming_[0] * size_ + status.MPI_SOURCE;
      if (priority < first_) message_ = incoming_;
      first_ = std::min(first_, priority);
      post_receive();
    }
    return any();
  }
  /// Whether a notification has been received; does not call MPI.
  [[nodiscard]] bool any() const { return first_ != INT_MAX; }
  /// Whether a notification has been sent or received, so that every other rank will receive one.
  [[nodiscard]] bool is_announced() const { return any() || !sent_.empty(); }
  /// Whether there may be pending messages that no rank will receive.
  [[nodiscard]] bool is_broken() const { return broken_ || any(); }
  void mark_broken() { broken_ = true; }
  /// Whether a notification of a rank's error has been received.
  [[nodiscard]] bool is_error() const { return first_ < size_; }
  /// The lowest rank that sent an error, or else the lowest that abandoned a call.
  /// @pre any()
  [[nodiscard]] int source() const { return first_ % size_; }
  /// The message of rank `source()`.
  [[nodiscard]] const char* message() const { return message_.data() + 1; }

  /// Polls until an error has arrived, but at most for a second; returns `message()`.
  [[nodiscard]] std::string wait_for_error()
  {
    for (Backoff backoff; !poll() || !is_error(); backoff.pause())
      if (backoff.waited() > std::chrono::seconds{1}) break;
    return message();
  }

 private:
  static constexpr int tag = 0;

  static void check(int code, const char* function)
  {
    mpi_check(code, function, "the failure notification");
  }

  void post_receive()
  {
    check(MPI_Irecv(incoming_.data(), static_cast<int>(incoming_.size()), MPI_CHAR, MPI_ANY_SOURCE,
                    tag, comm_, &receive_),
          "MPI_Irecv");
  }

  MPI_Comm comm_;
  int rank_ = 0;
  int size_ = 1;
  std::array<char, 2048> message_{};  // the first char is its kind
  std::array<char, 2048> incoming_{};
  MPI_Request receive_ = MPI_REQUEST_NULL;
  bool broken_ = false;
  int first_ = INT_MAX;          // kind * size + rank: the lowest notification so far
  std::list<std::string> sent_;  // MPI may still read them
};

}  // namespace cubist::CUBIST_ABI::detail
