// SPDX-License-Identifier: BSD-3-Clause
#include <array>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <mpi.h>

#include "cubist/comm/mpi/call.hpp"

#include "catch.hpp"
#include "ranks.hpp"

// One call without a world around it: whoever advances it is the only one that does.

using namespace cubist;
using namespace cubist::test;
using detail::MpiCall;
using detail::MpiContext;

namespace
{

/// All processes, with a communicator of their own.
struct Place
{
  /// @param ranks_a_node that are said to be together; 0 for no nodes
  explicit Place(std::size_t message_bytes, int ranks_a_node = 0)
  {
    MPI_Comm_dup(MPI_COMM_WORLD, &place.comm);
    MPI_Comm_set_errhandler(place.comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(place.comm, &place.rank);
    MPI_Comm_size(place.comm, &place.size);
    place.message_bytes = message_bytes;
    if (ranks_a_node == 0) return;
    std::vector<int> of_ranks;
    for (int r = 0; r < place.size; ++r) of_ranks.push_back(r / ranks_a_node);
    place.nodes = std::make_shared<detail::MpiTopology>(of_ranks, place.rank);
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  ~Place() { MPI_Comm_free(&place.comm); }

  MpiContext place;
};

template <class T>
void complete(MpiCall& call, const MpiContext& place, int tag, const Call<T>& what)
{
  call.start(place, tag, what);
  while (!call.advance())
  {
  }
}

}  // namespace

TEST_CASE("one call object makes calls of all kinds, in messages of any length")
{
  const std::size_t longest = GENERATE(16U, 48U, 1008U, 1U << 20);
  const int ranks_a_node = GENERATE(0, 1, 2, 3);
  const Place here{longest, ranks_a_node};
  const MpiContext& place = here.place;
  const auto ranks = static_cast<std::size_t>(place.size);
  const auto rank = static_cast<std::size_t>(place.rank);
  MpiCall call;
  int tag = 0;
  for (const std::size_t n : {0U, 1U, 3U, 100U, 1000U})
  {
    CAPTURE(longest, ranks_a_node, n);
    std::vector<double> x(n);
    std::iota(x.begin(), x.end(), 1.0);
    std::vector<double> doubled(n);
    for (std::size_t i = 0; i < n; ++i) doubled[i] = x[i] * place.size;

    for (int root = 0; root < place.size; ++root)
    {
      std::vector<double> out(n);
      complete(call, place, ++tag,
               place.rank == root ? Call<double>{Collective::broadcast, x, {}, n, root}
                                  : Call<double>{Collective::broadcast, {}, out, n, root});
      if (place.rank != root) CHECK(out == x);
    }

    std::vector<double> sum(n);
    complete(call, place, ++tag,
             Call<double>{Collective::reduce, x,
                          place.rank == 0 ? std::span{sum} : std::span<double>{}, n, 0});
    if (place.rank == 0) CHECK(sum == doubled);

    sum = x;
    complete(call, place, ++tag, Call<double>{Collective::all_reduce, sum, sum, n});
    CHECK(sum == doubled);

    std::vector<int> all(n * ranks);
    const std::vector<int> mine(n, place.rank);
    complete(call, place, ++tag, Call<int>{Collective::all_gather, mine, all, n});
    for (std::size_t i = 0; i < all.size(); ++i) REQUIRE(all[i] == static_cast<int>(i / n));

    std::vector<int> turned(n * ranks);
    complete(call, place, ++tag, Call<int>{Collective::all_to_all, all, turned, n});
    CHECK(turned == std::vector<int>(n * ranks, place.rank));

    std::vector<int> share(n);
    complete(call, place, ++tag, Call<int>{Collective::reduce_scatter, all, share, n});
    CHECK(share == std::vector<int>(n, place.rank * place.size));

    std::vector<int> gathered(rank == 0 ? n * ranks : 0);
    complete(call, place, ++tag, Call<int>{Collective::gather, mine, gathered, n, 0});
    if (rank == 0) CHECK(gathered == all);
    complete(call, place, ++tag, Call<int>{Collective::scatter, gathered, share, n, 0});
    CHECK(share == mine);

    complete(call, place, ++tag, Call<int>{Collective::barrier});
  }
}

TEST_CASE("a call that is taken back can be started anew")
{
  const Place here{1 << 20};
  const MpiContext& place = here.place;
  const int previous = (place.rank + place.size - 1) % place.size;
  std::vector<int> lost(10, 7);
  MpiCall call;
  call.start(place, 1, Call<int>{Collective::receive, {}, lost, 10, previous});
  CHECK(call.under_way() == 1);
  call.cancel();
  CHECK(call.under_way() == 0);
  call.forget();
  CHECK(lost == std::vector<int>(10, 7));

  std::vector<int> x{1};
  complete(call, place, 2, Call<int>{Collective::all_reduce, x, x, 1});
  CHECK(x[0] == place.size);
}

TEST_CASE("a call tells its name, rank and ranks")
{
  const Place here{16};
  const auto where =
      " on rank " + std::to_string(here.place.rank) + " of " + std::to_string(here.place.size);
  MpiCall call;
  complete(call, here.place, 1, Call<int>{Collective::barrier});
  CHECK(call.describe() == "barrier" + where);
  std::vector<int> x{1};
  complete(call, here.place, 2, Call<int>{Collective::all_reduce, x, x, 1});
  CHECK(call.describe() == "all_reduce" + where);
}

TEST_CASE("a call tells what it is, for whom it waits, and who calls something else")
{
  Place here{1 << 20};
  const int size = here.place.size;
  const int me = here.place.rank;
  here.place.tells_whom = true;
  const auto tag = [&](Collective c) { return here.place.tags.tag(1, Call<int>{c}); };
  MpiCall call;
  complete(call, here.place, tag(Collective::barrier), Call<int>{Collective::barrier});
  CHECK(mentions(call.text(), "barrier on ranks {0"));
  CHECK(call.awaited().empty());

  // The root of a broadcast comes last: the first in the chain waits for it, the others for those
  // before them.
  std::vector<int> x(3);
  const Call<int> receive{Collective::broadcast, {}, x, 3, 0};
  if (me > 0)
  {
    call.start(here.place, here.place.tags.tag(2, receive), receive);
    CHECK_FALSE(call.advance());
    CHECK(mentions(call.text(), "broadcast of 3 int32 with root 0 on ranks {0, 1"));
    const auto from = "; nothing has come from ranks {" + std::to_string(me - 1) + "}";
    const auto text = call.awaited();
    CHECK(mentions(text, from));
    CHECK(mentions(text, "which pass on what comes from ranks") == (me > 1));
    if (me == 3) CHECK(mentions(text, "from ranks {1, 0}"));
  }
  MPI_Barrier(here.place.comm);
  const Call<int> send{Collective::broadcast, x, {}, 3, 0};
  if (me == 0) call.start(here.place, here.place.tags.tag(2, send), send);
  while (!call.advance())
  {
  }

  // Rank 0 sends what the others do not wait for.
  CHECK_NOTHROW(call.look_for_mismatch());
  if (size > 1 && me == 0) complete(call, here.place, here.place.tags.tag(3, send), send);
  MPI_Barrier(here.place.comm);
  if (me == 1)
  {
    const Call<int> other{Collective::receive, {}, x, 3, 0};
    call.start(here.place, here.place.tags.tag(3, other), other);
    std::string text;
    for (int i = 0; i < 1000 && text.empty(); ++i)
      text = message_of<CollectiveMismatch>([&] { call.look_for_mismatch(); });
    CHECK(mentions(text, "rank 1 called receive of 3 int32", "rank 0 called broadcast"));
    call.cancel();
    (void)call.under_way();
    MPI_Recv(x.data(), 3, MPI_INT, 0, MPI_ANY_TAG, here.place.comm, MPI_STATUS_IGNORE);
  }
  MPI_Barrier(here.place.comm);
}

TEST_CASE("what MPI reports is an error with MPI's text")
{
  const Place here{16};
  std::vector<int> x{1};
  MpiCall call;
  const auto nobody = message_of<CommunicationError>([&] {
    call.start(here.place, 1, Call<int>{Collective::send, x, {}, 1, here.place.size});
  });
  CHECK(mentions(nobody, "send on rank " + std::to_string(here.place.rank), "MPI_Isend",
                 "MPI_ERR_RANK"));
  call.forget();
}
