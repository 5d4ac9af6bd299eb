// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/comm/mpi/pending.hpp"

#include "job_context.hpp"
#include "ranks.hpp"

namespace cubist::test::comm_mpi_pending_test
{

using detail::MpiPendingCall;
using detail::MpiPendingCalls;

static MpiPendingCall& start(MpiPendingCalls& calls, const JobContext& job, int tag, bool remote,
                             const Call<int>& call)
{
  return calls.add(remote, 0, [&](detail::MpiCall& mine) { mine.post(job.context, tag, call); });
}

TEST_CASE("pending calls advance together, and their objects are reused")
{
  const JobContext job{1 << 20};
  MpiPendingCalls calls{2};
  std::vector<int> x{1}, y{2};
  auto& first = start(calls, job, 1, false, Call<int>{CallKind::all_reduce, x, x, 1});
  auto& second = start(calls, job, 2, true, Call<int>{CallKind::all_reduce, y, y, 1});
  CHECK(calls.any_remote() == second.active);
  CHECK(calls.all_use_shared_barrier() == !(first.active || second.active));
  while (first.active || second.active) calls.advance_all();
  CHECK(x[0] == job.context.size);
  CHECK(y[0] == 2 * job.context.size);
  CHECK_FALSE(calls.any_remote());

  calls.release(second);
  CHECK(&start(calls, job, 3, false, Call<int>{CallKind::barrier}) == &second);
  while (second.active) calls.advance_all();
}

TEST_CASE("a call that throws has failed, and keeps its error")
{
  const JobContext job{16};
  MpiPendingCalls calls{2};
  std::vector<int> x{1};
  auto& pending =
      start(calls, job, 1, false, Call<int>{CallKind::send, x, {}, 1, job.context.size});
  CHECK(pending.failed);
  CHECK_FALSE(pending.active);
  CHECK_THROWS_AS(std::rethrow_exception(pending.error), CommunicationError);
  calls.drain(pending);
}

}  // namespace cubist::test::comm_mpi_pending_test
