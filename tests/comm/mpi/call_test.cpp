// SPDX-License-Identifier: BSD-3-Clause
#include <mpi.h>

#include "cubist/comm/mpi/call.hpp"

#include "job_context.hpp"
#include "ranks.hpp"

namespace cubist::test::comm_mpi_call_test
{

// Tests one call without the process's progress engine: the test itself advances it.

using detail::MpiCall;
using detail::MpiContext;

template <class T>
void complete_call(MpiCall& call, const MpiContext& context, int tag, const Call<T>& arguments)
{
  call.post(context, tag, arguments);
  while (!call.advance())
  {
  }
}

TEST_CASE("one object carries out calls of every kind, one after the other")
{
  const int ranks_a_node = GENERATE(0, 2);
  const JobContext job{48, ranks_a_node};
  const MpiContext& context = job.context;
  const auto ranks = static_cast<std::size_t>(context.size);
  const auto rank = static_cast<std::size_t>(context.rank);
  MpiCall call;
  int tag = 0;
  for (const std::size_t n : block_counts)
  {
    CAPTURE(ranks_a_node, n);
    std::vector<double> x(n);
    std::iota(x.begin(), x.end(), 1.0);
    std::vector<double> expected(n);
    for (std::size_t i = 0; i < n; ++i) expected[i] = x[i] * context.size;

    const int root = context.size - 1;
    std::vector<double> out(n);
    complete_call(call, context, ++tag,
                  context.rank == root ? Call<double>{CallKind::broadcast, x, {}, n, root}
                                       : Call<double>{CallKind::broadcast, {}, out, n, root});
    CHECK((context.rank == root || out == x));

    std::vector<double> sum(n);
    complete_call(call, context, ++tag,
                  Call<double>{CallKind::reduce, x,
                               context.rank == 0 ? std::span{sum} : std::span<double>{}, n, 0});
    CHECK((context.rank != 0 || sum == expected));

    sum = x;
    complete_call(call, context, ++tag, Call<double>{CallKind::all_reduce, sum, sum, n});
    CHECK(sum == expected);

    std::vector<int> all(n * ranks), all_expected(n * ranks);
    for (std::size_t i = 0; i < all.size(); ++i) all_expected[i] = static_cast<int>(i / n);
    const std::vector<int> mine(n, context.rank);
    for (const auto collective : {CallKind::all_gather, CallKind::expose})
    {
      all.assign(n * ranks, -1);
      complete_call(call, context, ++tag, Call<int>{collective, mine, all, n});
      CHECK(all == all_expected);
    }

    std::vector<int> received(n * ranks);
    complete_call(call, context, ++tag, Call<int>{CallKind::all_to_all, all, received, n});
    CHECK(received == std::vector<int>(n * ranks, context.rank));

    std::vector<int> share(n);
    complete_call(call, context, ++tag, Call<int>{CallKind::reduce_scatter, all, share, n});
    CHECK(share == std::vector<int>(n, context.rank * context.size));

    std::vector<int> gathered(rank == 0 ? n * ranks : 0);
    complete_call(call, context, ++tag, Call<int>{CallKind::gather, mine, gathered, n, 0});
    CHECK((rank != 0 || gathered == all));
    complete_call(call, context, ++tag, Call<int>{CallKind::scatter, gathered, share, n, 0});
    CHECK(share == mine);

    complete_call(call, context, ++tag, Call<int>{CallKind::barrier});
  }
}

TEST_CASE("the object of a cancelled call can start another call")
{
  const JobContext job{1 << 20};
  const MpiContext& context = job.context;
  std::vector<int> lost(10, 7);
  MpiCall call;
  call.post(context, 1, Call<int>{CallKind::receive, {}, lost, 10, detail::neighbour(context, -1)});
  CHECK(call.count_pending() == 1);
  call.cancel();
  CHECK(call.count_pending() == 0);
  call.release();
  CHECK(lost == std::vector<int>(10, 7));

  std::vector<int> x{1};
  complete_call(call, context, 2, Call<int>{CallKind::all_reduce, x, x, 1});
  CHECK(x[0] == context.size);
}

TEST_CASE("a call describes its collective, rank and ranks")
{
  const JobContext job{16};
  const auto where =
      " on rank " + std::to_string(job.context.rank) + " of " + std::to_string(job.context.size);
  MpiCall call;
  complete_call(call, job.context, 1, Call<int>{CallKind::barrier});
  CHECK(call.describe() == "barrier" + where);
  std::vector<int> x{1};
  complete_call(call, job.context, 2, Call<int>{CallKind::all_reduce, x, x, 1});
  CHECK(call.describe() == "all_reduce" + where);
}

TEST_CASE("a call describes what it waits for, and detects a mismatched peer")
{
  JobContext job{1 << 20};
  const MpiContext& context = job.context;
  const int me = context.rank;
  job.context.names_missing_ranks = true;
  const auto tag = [&](CallKind c) { return context.tags.tag(1, Call<int>{c}); };
  MpiCall call;
  complete_call(call, context, tag(CallKind::barrier), Call<int>{CallKind::barrier});
  CHECK(mentions(call.text(), "barrier on ranks {0"));
  CHECK(call.describe_pending().empty());

  // The root of a broadcast calls last: each other rank waits for its predecessor in the chain.
  std::vector<int> x(3);
  const Call<int> receive{CallKind::broadcast, {}, x, 3, 0};
  if (me > 0)
  {
    call.post(context, context.tags.tag(2, receive), receive);
    CHECK_FALSE(call.advance());
    CHECK(mentions(call.text(), "broadcast of 3 int32 with root 0 on ranks {0, 1"));
    const auto text = call.describe_pending();
    CHECK(mentions(text, "; nothing received from ranks {" + std::to_string(me - 1) + "}"));
    CHECK(mentions(text, "which forward the data of ranks") == (me > 1));
    if (me == 3) CHECK(mentions(text, "of ranks {1, 0}"));
  }
  MPI_Barrier(context.comm);
  const Call<int> send{CallKind::broadcast, x, {}, 3, 0};
  if (me == 0) call.post(context, context.tags.tag(2, send), send);
  while (!call.advance())
  {
  }

  // Rank 0 sends a message that its peer does not wait for.
  CHECK_NOTHROW(call.check_for_mismatch());
  if (context.size > 1 && me == 0) complete_call(call, context, context.tags.tag(3, send), send);
  MPI_Barrier(context.comm);
  if (me == 1)
  {
    const Call<int> other{CallKind::receive, {}, x, 3, 0};
    call.post(context, context.tags.tag(3, other), other);
    std::string text;
    for (int i = 0; i < 1000 && text.empty(); ++i)
      text = message_of<CollectiveMismatch>([&] { call.check_for_mismatch(); });
    CHECK(mentions(text, "rank 1 called receive of 3 int32", "rank 0 called broadcast"));
    call.cancel();
    (void)call.count_pending();
    MPI_Recv(x.data(), 3, MPI_INT, 0, MPI_ANY_TAG, context.comm, MPI_STATUS_IGNORE);
  }
  MPI_Barrier(context.comm);
}

TEST_CASE("an error of MPI in a call is thrown with MPI's text")
{
  const JobContext job{16};
  std::vector<int> x{1};
  MpiCall call;
  const auto text = message_of<CommunicationError>([&] {
    call.post(job.context, 1, Call<int>{CallKind::send, x, {}, 1, job.context.size});
  });
  CHECK(mentions(text, "send on rank " + std::to_string(job.context.rank), "MPI_Isend",
                 text_of_error(MPI_ERR_RANK)));
  call.release();
}

}  // namespace cubist::test::comm_mpi_call_test
