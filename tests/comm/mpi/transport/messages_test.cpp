// SPDX-License-Identifier: BSD-3-Clause
#include <mpi.h>

#include "cubist/comm/mpi/transport/messages.hpp"

#include "../job_context.hpp"
#include "ranks.hpp"

namespace cubist::test::comm_mpi_transport_messages_test
{

using detail::MpiMessages;

static std::vector<std::byte> test_bytes(int rank, std::size_t n)
{
  std::vector<std::byte> b(n);
  for (std::size_t i = 0; i < n; ++i)
    b[i] = static_cast<std::byte>((static_cast<std::size_t>(rank) * 31 + i * 7) % 251);
  return b;
}

TEST_CASE("a transfer of any size is cut into bounded messages, which complete in order")
{
  const std::size_t n = GENERATE(0U, 1U, 16U, 17U, 1000U);
  const JobContext job{16};
  const int next = detail::neighbour(job.context, 1);
  const int previous = detail::neighbour(job.context, -1);
  const auto mine = test_bytes(job.context.rank, n);
  std::vector<std::byte> got(n);
  MpiMessages messages;
  for (int round = 0; round < 3; ++round)
  {
    messages.begin(job.context, 5, "test");
    messages.receive(previous, {got.data(), n});
    const std::size_t pieces = (n + 15) / 16;
    CHECK(messages.count() == pieces);
    messages.send(next, {mine.data(), n});
    CHECK(messages.count() == 2 * pieces);
    std::vector<std::size_t> order;
    complete_all(messages, [&](std::size_t i) { order.push_back(i); });
    CHECK(got == test_bytes(previous, n));
    CHECK(order.size() == 2 * pieces);
    CHECK(std::is_sorted(order.begin(), order.end()));
  }
}

TEST_CASE("a message that completes may cause more messages")
{
  // A byte is forwarded around the ring, from rank 0 to rank 0.
  const JobContext job{16};
  const int next = detail::neighbour(job.context, 1);
  const int previous = detail::neighbour(job.context, -1);
  std::byte token{job.context.rank == 0 ? std::byte{7} : std::byte{0}};
  std::byte got{0};
  MpiMessages messages;
  messages.begin(job.context, 6, "test");
  messages.receive(previous, {&got, 1});
  if (job.context.rank == 0) messages.send(next, {&token, 1});
  const bool forwards = job.context.rank != 0;
  complete_all(messages, [&](std::size_t i) {
    if (i == 0 && forwards) messages.send(next, {&got, 1});
  });
  CHECK(got == std::byte{7});
}

TEST_CASE("receives that no send matches can be cancelled")
{
  const JobContext job{16};
  std::vector<std::byte> buffer(40);
  MpiMessages messages;
  messages.begin(job.context, 7, "test");
  messages.receive(job.context.rank, {buffer.data(), buffer.size()});
  CHECK(messages.count_pending() == 3);
  messages.cancel();
  CHECK(messages.count_pending() == 0);
  messages.release();
  CHECK(messages.count() == 0);
  CHECK(messages.describe() == "test on rank " + std::to_string(job.context.rank) + " of " +
                                   std::to_string(job.context.size));
}

TEST_CASE("the peers of pending receives and sends are known")
{
  const JobContext job{16};
  const int me = job.context.rank;
  std::vector<std::byte> buffer(40);
  const std::vector<std::byte> sent(40);
  MpiMessages messages;
  messages.begin(job.context, 7, "test");
  CHECK(messages.pending_peers(true).empty());
  messages.receive(me, {buffer.data(), buffer.size()});
  CHECK(messages.pending_peers(true) == std::vector<int>{me});
  CHECK(messages.pending_peers(false).empty());
  messages.send(me, {sent.data(), sent.size()});
  complete_all(messages);
  CHECK(messages.pending_peers(true).empty());

  messages.begin(job.context, 7, "test");
  messages.send(me, {});
  CHECK(messages.count() == 0);
  messages.receive(me, {}, true);
  CHECK(messages.pending_peers(true) == std::vector<int>{me});
  messages.send(me, {}, true);
  complete_all(messages);
}

TEST_CASE("a message of another size than expected is a mismatch")
{
  const JobContext job{16};
  if (job.context.size == 1) SKIP_TEST("Open MPI truncates a message to oneself silently");
  const int next = detail::neighbour(job.context, 1);
  const int previous = detail::neighbour(job.context, -1);
  std::vector<std::byte> buffer(40);
  for (const std::size_t size : {39U, 33U, 41U, 0U})
  {
    MpiMessages received;
    MpiMessages sent;
    received.begin(job.context, 0, "receive");
    sent.begin(job.context, 0, "send");
    received.receive(previous, {buffer.data(), buffer.size()}, true);
    const std::vector<std::byte> data(size);
    sent.send(next, {data.data(), size}, true);
    const auto text = message_of<CollectiveMismatch>([&] { complete_all(received); });
    complete_all(sent);
    CAPTURE(size, text);
    CHECK(mentions(text, "receive on rank " + std::to_string(job.context.rank),
                   "its data is incomplete"));
    received.cancel();
    CHECK(received.count_pending() == 0);
    MPI_Barrier(job.context.comm);
  }
}

TEST_CASE("a barrier by messages completes when all ranks have called it")
{
  JobContext job{16};
  const int size = job.context.size;
  MpiMessages messages;
  for (const bool names_missing_ranks : {false, true})
  {
    CAPTURE(names_missing_ranks);
    job.context.names_missing_ranks = names_missing_ranks;
    messages.begin(job.context, 1, "barrier");
    if (process() > 0) messages.barrier();
    if (process() > 0) CHECK_FALSE(messages.advance([](std::size_t) {}));
    if (process() > 0) CHECK_FALSE(messages.pending_peers(true).empty());
    MPI_Barrier(MPI_COMM_WORLD);
    if (process() == 0) messages.barrier();
    CHECK(messages.count() == (names_missing_ranks ? 2 * (static_cast<std::size_t>(size) - 1) : 1));
    complete_all(messages);
    CHECK(messages.pending_peers(true).empty());
  }
}

}  // namespace cubist::test::comm_mpi_transport_messages_test
