// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Detects ranks that return from the body of a launch while others wait for them.
//
// All ranks start the collectives of a communicator in the same order, and both ranks of a pair
// start the messages between them in the same order. So call number n can never complete if it
// needs a rank that has returned after fewer than n calls. Messages that a rank sent before it
// returned may still be in flight; they complete.
//
//   waiting rank    asks each rank that its call needs, once per launch and communicator
//   asked rank      answers at the end of its body how many calls it has started
//
// Peers may have sent messages to a rank that it has never received. So MPI must not reuse the
// number of the communicator before it is known that the launch has not failed.
//
// Elements that one rank sends: none. Only a long wait costs a question of 16 bytes and an answer
// of 32 bytes for each rank that is asked.

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <boost/mpi/communicator.hpp>
#include <mpi.h>

#include "cubist/comm/call.hpp"
#include "cubist/comm/call_text.hpp"
#include "cubist/comm/mpi/call.hpp"
#include "cubist/comm/mpi/transport/context.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/fingerprint.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Returns the number of a communicator that a split makes: a hash, for which all its ranks compute
/// the same value.
/// @param split the number of this split of the parent, starting at 1
[[nodiscard]] constexpr std::uint64_t communicator_id(std::uint64_t parent, std::uint64_t split,
                                                      int colour)
{
  return mix(mix(parent, split), static_cast<std::uint64_t>(colour));
}

/// How many calls this rank has started on one communicator.
class CallCounts
{
 public:
  /// Counts a call and returns its number, starting at 1. Messages to each peer are numbered
  /// separately, and so are messages from it.
  std::int64_t count(CallKind kind, int peer, int size)
  {
    if (!is_message(kind)) return ++collectives_;
    if (peer < 0 || peer >= size) return 0;
    if (messages_.empty()) messages_.resize(static_cast<std::size_t>(size));
    return ++messages_[static_cast<std::size_t>(peer)][kind == CallKind::send ? 0 : 1];
  }

  /// The numbers of collectives, of sends to a peer, and of receives from it.
  [[nodiscard]] std::array<std::int64_t, 3> with(int peer) const
  {
    if (messages_.empty()) return {collectives_, 0, 0};
    const auto [sends, receives] = messages_[static_cast<std::size_t>(peer)];
    return {collectives_, sends, receives};
  }

 private:
  std::int64_t collectives_ = 0;
  std::vector<std::array<std::int64_t, 2>> messages_;  // sends and receives, by peer
};

class MpiReturnedRanks
{
 public:
  /// @param control a communicator of all ranks of the launch
  explicit MpiReturnedRanks(MPI_Comm control)
      : comm_{control}
  {
  }
  MpiReturnedRanks(MpiReturnedRanks&&) = delete;

  /// The counts of this rank's calls on a communicator. They outlive the communicator.
  [[nodiscard]] CallCounts& counts(std::uint64_t communicator) { return counts_[communicator]; }

  /// Asks the ranks that a call needs, unless it has asked them before.
  /// @param number the call's number; 0 if it is not counted
  /// @param rank the number of this rank in the launch
  /// @throws DeadlockError if one has answered that it returned without making the call
  void check(MpiCall& call, std::int64_t number, int rank)
  {
    if (ended_ || number == 0) return;
    std::vector<int> left;
    for (const int peer : job_ranks(call.context(), call.needed_ranks()))
      if (peer != rank && has_left(peer, call.context(), call.kind(), number)) left.push_back(peer);
    if (left.empty()) return;
    const auto ranks = rank_list(left);
    throw DeadlockError{"called " + call.text() + ", which ranks " + ranks +
                        " have not called; ranks " + ranks +
                        " have returned, so the call can never complete; let all ranks of a "
                        "communicator make the same calls in the same order, and match every send "
                        "with a receive"};
  }

  /// Answers the questions that have arrived, and receives answers.
  /// @pre the body of this rank has returned
  void exchange()
  {
    std::array<std::int64_t, 2> question{};
    while (const auto source = receive(question, question_tag))
    {
      const auto [id, peer] = question;
      const auto calls = counts_[static_cast<std::uint64_t>(id)].with(static_cast<int>(peer));
      send(answers_.emplace_back(std::array{id, calls[0], calls[1], calls[2]}), *source,
           answer_tag);
    }
    receive_answers();
  }

  /// Whether every question is answered. Once this holds on all ranks, no message is in flight.
  [[nodiscard]] bool has_all_answers() const { return answered_ == questions_.size(); }

  /// Keeps a communicator, which this rank no longer uses, until the end of the launch. Only the
  /// most recent ones are kept, because MPI limits how many can exist.
  void retire(boost::mpi::communicator comm)
  {
    constexpr std::size_t most = 64;
    if (ended_) return;
    retired_.push_back(std::move(comm));
    if (retired_.size() > most) retired_.pop_front();
  }

  /// Stops asking, because the launch has ended, and with it the communicator of all ranks. Returns
  /// the communicators to free, or to keep after a failure.
  std::deque<boost::mpi::communicator> end()
  {
    ended_ = true;
    return std::exchange(retired_, {});
  }

 private:
  static constexpr int question_tag = 1;  // failure notifications have tag 0
  static constexpr int answer_tag = 2;

  struct Question
  {
    std::array<std::int64_t, 2> message{};  // the communicator, and this rank in it
    std::optional<std::array<std::int64_t, 3>> answer;
  };

  /// Whether a rank has answered that it has started fewer calls than `number`.
  bool has_left(int rank, const MpiContext& context, CallKind kind, std::int64_t number)
  {
    const auto [entry, is_new] = questions_.try_emplace({rank, context.id});
    auto& [question, answer] = entry->second;
    if (is_new)
    {
      question = {static_cast<std::int64_t>(context.id), context.rank};
      send(question, rank, question_tag);
    }
    receive_answers();
    if (!answer) return false;
    const auto [collectives, sends, receives] = *answer;
    const auto started = kind == CallKind::send      ? receives
                         : kind == CallKind::receive ? sends
                                                     : collectives;
    return started < number;
  }

  static void check_mpi(int code, const char* function)
  {
    mpi_check(code, function, "the search for ranks that have returned");
  }

  /// @pre `message` lives as long as this object
  template <std::size_t N>
  void send(const std::array<std::int64_t, N>& message, int rank, int tag)
  {
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Isend(message.data(), N, MPI_INT64_T, rank, tag, comm_, &request), "MPI_Isend");
    MPI_Request_free(&request);
  }

  /// Receives a message if one has arrived, and returns its source.
  template <std::size_t N>
  std::optional<int> receive(std::array<std::int64_t, N>& message, int tag)
  {
    int found = 0;
    MPI_Status status;
    check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, tag, comm_, &found, &status), "MPI_Iprobe");
    if (found == 0) return {};
    check_mpi(
        MPI_Recv(message.data(), N, MPI_INT64_T, status.MPI_SOURCE, tag, comm_, MPI_STATUS_IGNORE),
        "MPI_Recv");
    return status.MPI_SOURCE;
  }

  void receive_answers()
  {
    std::array<std::int64_t, 4> message{};
    while (const auto source = receive(message, answer_tag))
    {
      const auto [id, collectives, sends, receives] = message;
      questions_[{*source, static_cast<std::uint64_t>(id)}].answer = {collectives, sends, receives};
      ++answered_;
    }
  }

  MPI_Comm comm_;
  bool ended_ = false;
  std::map<std::uint64_t, CallCounts> counts_;                   // by communicator
  std::map<std::pair<int, std::uint64_t>, Question> questions_;  // by rank and communicator
  std::size_t answered_ = 0;
  std::list<std::array<std::int64_t, 4>> answers_;  // MPI may still read them
  std::deque<boost::mpi::communicator> retired_;
};

}  // namespace cubist::CUBIST_ABI::detail
