// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <boost/mpi/communicator.hpp>
#include <mpi.h>

#include "cubist/comm/mpi/messages.hpp"

#include "catch.hpp"
#include "ranks.hpp"

using namespace cubist;
using namespace cubist::test;
using detail::MpiContext;
using detail::MpiMessages;

namespace
{

struct Here
{
  explicit Here(std::size_t message_bytes) : place{comm, comm.rank(), comm.size(), message_bytes}
  {
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  }
  boost::mpi::communicator comm{MPI_COMM_WORLD, boost::mpi::comm_duplicate};
  MpiContext place;
};

std::vector<std::byte> bytes(int rank, std::size_t n)
{
  std::vector<std::byte> b(n);
  for (std::size_t i = 0; i < n; ++i)
    b[i] = static_cast<std::byte>((static_cast<std::size_t>(rank) * 31 + i * 7) % 251);
  return b;
}

}  // namespace

TEST_CASE("bytes of any number travel in messages of a bounded length, and arrive in order")
{
  const std::size_t n = GENERATE(0U, 1U, 16U, 17U, 1000U);
  const Here here{16};
  const int next = (here.place.rank + 1) % here.place.size;
  const int previous = (here.place.rank + here.place.size - 1) % here.place.size;
  const auto mine = bytes(here.place.rank, n);
  std::vector<std::byte> got(n);
  MpiMessages messages;
  for (int round = 0; round < 3; ++round)
  {
    messages.begin(here.place, 5, "test");
    messages.receive(previous, {got.data(), n});
    const std::size_t pieces = (n + 15) / 16;
    CHECK(messages.count() == pieces);
    messages.send(next, {mine.data(), n});
    CHECK(messages.count() == 2 * pieces);
    std::vector<std::size_t> order;
    while (!messages.advance([&](std::size_t i) { order.push_back(i); }))
    {
    }
    CHECK(got == bytes(previous, n));
    CHECK(order.size() == 2 * pieces);
    CHECK(std::is_sorted(order.begin(), order.end()));
  }
}

TEST_CASE("what arrives may cause more messages")
{
  // A byte goes around the ring, from rank 0 to rank 0.
  const Here here{16};
  const int next = (here.place.rank + 1) % here.place.size;
  const int previous = (here.place.rank + here.place.size - 1) % here.place.size;
  std::byte token{here.place.rank == 0 ? std::byte{7} : std::byte{0}};
  std::byte got{0};
  MpiMessages messages;
  messages.begin(here.place, 6, "test");
  messages.receive(previous, {&got, 1});
  if (here.place.rank == 0) messages.send(next, {&token, 1});
  const bool passes_on = here.place.rank != 0;
  while (!messages.advance([&](std::size_t i) {
    if (i == 0 && passes_on) messages.send(next, {&got, 1});
  }))
  {
  }
  CHECK(got == std::byte{7});
}

TEST_CASE("messages that nobody sends can be taken back")
{
  const Here here{16};
  std::vector<std::byte> room(40);
  MpiMessages messages;
  messages.begin(here.place, 7, "test");
  messages.receive(here.place.rank, {room.data(), room.size()});
  CHECK(messages.under_way() == 3);
  messages.cancel();
  CHECK(messages.under_way() == 0);
  messages.forget();
  CHECK(messages.count() == 0);
  CHECK(messages.describe() == "test on rank " + std::to_string(here.place.rank) + " of " +
                                   std::to_string(here.place.size));
}

TEST_CASE("it is known whose messages have not come, and who has not taken his")
{
  const Here here{16};
  const int me = here.place.rank;
  std::vector<std::byte> room(40);
  MpiMessages messages;
  messages.begin(here.place, 7, "test");
  CHECK(messages.awaited(true).empty());
  messages.receive(me, {room.data(), room.size()});
  CHECK(messages.awaited(true) == std::vector<int>{me});
  CHECK(messages.awaited(false).empty());
  messages.send(me, {room.data(), room.size()});
  while (!messages.advance([](std::size_t) {}))
  {
  }
  CHECK(messages.awaited(true).empty());

  messages.begin(here.place, 7, "test");
  messages.send(me, {nullptr, 0});
  CHECK(messages.count() == 0);
  messages.receive(me, {nullptr, 0}, true);
  CHECK(messages.awaited(true) == std::vector<int>{me});
  messages.send(me, {nullptr, 0}, true);
  while (!messages.advance([](std::size_t) {}))
  {
  }
}

TEST_CASE("a message of another size than its room is a mismatch")
{
  const Here here{16};
  if (here.place.size == 1) return;  // Open MPI cuts messages to oneself without a word
  const int next = (here.place.rank + 1) % here.place.size;
  const int previous = (here.place.rank + here.place.size - 1) % here.place.size;
  std::vector<std::byte> room(40);
  for (const std::size_t size : {39U, 33U, 41U, 0U})
  {
    MpiMessages received;
    MpiMessages sent;
    received.begin(here.place, 0, "receive");
    sent.begin(here.place, 0, "send");
    received.receive(previous, {room.data(), room.size()}, true);
    const std::vector<std::byte> data(size);
    sent.send(next, {data.data(), size}, true);
    const auto text = message_of<CollectiveMismatch>([&] {
      while (!received.advance([](std::size_t) {}))
      {
      }
    });
    while (!sent.advance([](std::size_t) {}))
    {
    }
    CAPTURE(size, text);
    CHECK(mentions(text, "receive on rank " + std::to_string(here.place.rank),
                   "its data is incomplete"));
    received.cancel();
    CHECK(received.under_way() == 0);
    MPI_Barrier(here.place.comm);
  }
}
