// SPDX-License-Identifier: BSD-3-Clause
#include <mpi.h>

#include "cubist/comm/mpi/returned_ranks.hpp"

#include "job_context.hpp"
#include "ranks.hpp"
#include "watchdog.hpp"

namespace cubist::test::comm_mpi_returned_ranks_test
{

using detail::MpiReturnedRanks;

TEST_CASE("collectives are counted together, messages by peer and direction")
{
  detail::CallCounts counts;
  CHECK(counts.with(3) == std::array<std::int64_t, 3>{0, 0, 0});
  CHECK(counts.count(CallKind::barrier, 0, 4) == 1);
  CHECK(counts.count(CallKind::broadcast, 3, 4) == 2);
  CHECK(counts.with(3) == std::array<std::int64_t, 3>{2, 0, 0});
  CHECK(counts.count(CallKind::send, 3, 4) == 1);
  CHECK(counts.count(CallKind::send, 3, 4) == 2);
  CHECK(counts.count(CallKind::receive, 3, 4) == 1);
  CHECK(counts.count(CallKind::receive, 1, 4) == 1);
  CHECK(counts.with(3) == std::array<std::int64_t, 3>{2, 2, 1});
  CHECK(counts.with(1) == std::array<std::int64_t, 3>{2, 0, 1});
  // MPI refuses such a call.
  for (const int peer : {-1, 4}) CHECK(counts.count(CallKind::send, peer, 4) == 0);
}

TEST_CASE("communicators have different numbers, whatever they are split from")
{
  std::vector<std::uint64_t> ids{1};
  std::size_t first = 0;
  for (int depth = 0; depth < 3; ++depth)
    for (const std::size_t end = ids.size(); first < end; ++first)
      for (std::uint64_t split = 1; split <= 4; ++split)
        for (int colour = 0; colour < 5; ++colour)
          ids.push_back(detail::communicator_id(ids[first], split, colour));
  REQUIRE(ids.size() == 1 + 20 + 400 + 8000);
  std::sort(ids.begin(), ids.end());
  CHECK(std::adjacent_find(ids.begin(), ids.end()) == ids.end());
}

TEST_CASE("a call that needs a rank which has returned without it is an error")
{
  const Watchdog watchdog;
  if (processes() < 2) SKIP_TEST("needs 2 processes");
  JobContext job{1 << 20};
  job.context.id = 7;
  const auto control = duplicate_world();
  MpiReturnedRanks returned{control};
  const int last = processes() - 1;
  // The last rank has made two calls; the others have made three.
  const int calls = process() == last ? 2 : 3;
  for (int i = 0; i < calls; ++i)
    (void)returned.counts(7).count(CallKind::all_reduce, 0, processes());

  std::vector<int> x{1};
  const Call<int> sum{CallKind::all_reduce, x, x, 1};
  detail::MpiCall call;
  if (process() == 0)
  {
    call.post(job.context, job.context.tags.tag(3, sum), sum);
    CHECK(returned.has_all_answers());
    CHECK_NOTHROW(returned.check(call, 3, 0));  // asks the peer
    CHECK_FALSE(returned.has_all_answers());
    std::string text;
    while (text.empty()) text = message_of<DeadlockError>([&] { returned.check(call, 3, 0); });
    const auto ranks = "ranks {" + std::to_string(last) + "}";
    CHECK(mentions(text, "called all_reduce of 1 int32 by sum on ranks {0, 1",
                   "which " + ranks + " have not called; " + ranks + " have returned",
                   "let all ranks of a communicator make the same calls"));
    while (!returned.has_all_answers()) returned.exchange();
    CHECK_NOTHROW(returned.check(call, 2, 0));
  }
  MPI_Request end = MPI_REQUEST_NULL;
  MPI_Ibarrier(control, &end);
  for (int ended = 0; ended == 0; MPI_Test(&end, &ended, MPI_STATUS_IGNORE)) returned.exchange();
  CHECK(returned.has_all_answers());
  returned.end();

  if (process() > 0) call.post(job.context, job.context.tags.tag(3, sum), sum);
  while (!call.advance()) std::this_thread::yield();
  CHECK(x[0] == processes());
}

TEST_CASE("a receive needs a send of the rank that has returned, and a send a receive of it")
{
  if (processes() < 2) SKIP_TEST("needs 2 processes");
  JobContext job{1 << 20};
  job.context.id = 8;
  const auto control = duplicate_world();
  MpiReturnedRanks returned{control};
  // The last rank has received more messages from each other rank than it has sent to it; with rank
  // 1 of three it is the other way round.
  const int last = processes() - 1;
  const int sends = process() == last ? 1 : 3;
  const int receives = process() == last ? 2 : 1;
  auto& counts = returned.counts(8);
  for (int i = 0; i < sends; ++i) counts.count(CallKind::send, 0, processes());
  for (int i = 0; i < receives; ++i) counts.count(CallKind::receive, 0, processes());

  constexpr std::size_t size = 1 << 20;  // too large for a send that MPI buffers
  std::vector<int> sent(size, process());
  std::vector<int> received(size, -1);
  struct Peer
  {
    int rank = 0;
    std::int64_t sends = 0;
    std::int64_t receives = 0;
    detail::MpiCall send;
    detail::MpiCall receive;
  };
  std::deque<Peer> peers;
  const auto start = [&](detail::MpiCall& call, CallKind collective, int peer) {
    const bool is_send = collective == CallKind::send;
    call.post(job.context, 0,
              Call<int>{collective, is_send ? std::span<const int>{sent} : std::span<const int>{},
                        is_send ? std::span<int>{} : std::span<int>{received}, size, peer});
  };
  std::vector<std::string> wrong;
  if (process() == 0)
  {
    const auto add = [&](int rank, std::int64_t its_sends, std::int64_t its_receives) {
      auto& p = peers.emplace_back();
      p.rank = rank, p.sends = its_sends, p.receives = its_receives;
    };
    add(last, 1, 2);
    if (last > 1) add(1, 3, 1);
    for (auto& p : peers)
    {
      start(p.send, CallKind::send, p.rank);
      start(p.receive, CallKind::receive, p.rank);
      const auto check = [&](detail::MpiCall& call, std::int64_t number) {
        return message_of<DeadlockError>([&] { returned.check(call, number, 0); });
      };
      const auto expect = [&](bool holds, const std::string& what) {
        if (!holds) wrong.push_back(what + " of rank " + std::to_string(p.rank));
      };
      const std::string named = "which ranks {" + std::to_string(p.rank) + "} have not called";
      (void)check(p.receive, 1);  // asks
      while (!returned.has_all_answers()) returned.exchange();
      expect(mentions(check(p.receive, p.sends + 1), "called receive", named), "a missing send");
      expect(check(p.receive, p.sends).empty(), "the last send");
      expect(mentions(check(p.send, p.receives + 1), "called send", named), "a missing receive");
      expect(check(p.send, p.receives).empty(), "the last receive");
    }
  }
  MPI_Request end = MPI_REQUEST_NULL;
  MPI_Ibarrier(control, &end);
  for (int ended = 0; ended == 0; MPI_Test(&end, &ended, MPI_STATUS_IGNORE)) returned.exchange();
  returned.end();

  if (process() > 0 && (process() == 1 || process() == last))
  {
    auto& p = peers.emplace_back();
    start(p.receive, CallKind::receive, 0);
    start(p.send, CallKind::send, 0);
  }
  for (auto& p : peers)
    for (auto* call : {&p.send, &p.receive})
      while (!call->advance()) std::this_thread::yield();
  CAPTURE(wrong);
  CHECK(wrong.empty());
}

TEST_CASE("the communicators that were retired last exist until the end of the launch")
{
  MpiReturnedRanks returned{duplicate_world()};
  const auto make = [] {
    return boost::mpi::communicator{MPI_COMM_SELF, boost::mpi::comm_duplicate};
  };
  const auto number = [](const boost::mpi::communicator& comm) { return MPI_Comm_c2f(comm); };
  auto first = make();
  const auto of_first = number(first);
  returned.retire(std::move(first));
  CHECK(number(make()) != of_first);
  for (int i = 0; i < 64; ++i) returned.retire(make());
  CHECK(number(make()) == of_first);
  CHECK(returned.end().size() == 64);
  returned.retire(make());
  CHECK(returned.end().empty());
}

}  // namespace cubist::test::comm_mpi_returned_ranks_test
