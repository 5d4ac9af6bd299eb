// SPDX-License-Identifier: BSD-3-Clause
#include <mpi.h>

#include "cubist/comm/mpi/progress.hpp"

#include "job_context.hpp"
#include "ranks.hpp"
#include "watchdog.hpp"

namespace cubist::test::comm_mpi_progress_test
{

using namespace std::chrono_literals;
using detail::MpiContext;
using detail::MpiFailures;
using detail::MpiProgress;

using Clock = std::chrono::steady_clock;

/// Communicators of all processes: one for control, one for data.
struct Communicators
{
  boost::mpi::communicator control = duplicate_world();
  JobContext job{1 << 20};
  const MpiContext& context = job.context;
};

static void synchronize() { MPI_Barrier(MPI_COMM_WORLD); }

[[nodiscard]] static bool is_broken(MpiProgress& progress)
{
  return progress.with_failures([](const MpiFailures& f) { return f.is_broken(); });
}

TEST_CASE("a call is pending until it has been waited for")
{
  Communicators all;
  MpiProgress progress{all.control, false};
  std::vector<int> x{1};
  for (int tag = 1; tag <= 100; ++tag)
  {
    x = {tag};
    const Call<int> sum{CallKind::all_reduce, x, x, 1};
    auto& call = progress.start(all.context, all.context.tags.tag(tag, sum), false, sum);
    if (tag % 2 == 0)
      progress.wait(call);
    else
      while (!progress.test(call)) std::this_thread::yield();
    progress.release(call);
    CHECK(x[0] == tag * all.context.size);
  }
  CHECK_FALSE(is_broken(progress));
  synchronize();
}

TEST_CASE("the helper thread advances calls between nodes while their rank computes")
{
  Communicators all;
  const auto& context = all.context;
  MpiProgress progress{all.control, true};
  std::vector<double> x(100'000, context.rank == 0 ? 5.0 : 0.0);
  synchronize();
  const auto begin = Clock::now();
  // The ranks in the middle of the chain must forward the data.
  auto& call =
      progress.start(context, 1, true,
                     context.rank == 0 ? Call<double>{CallKind::broadcast, x, {}, x.size(), 0}
                                       : Call<double>{CallKind::broadcast, {}, x, x.size(), 0});
  const bool in_the_middle = context.rank > 0 && context.rank + 1 < context.size;
  if (in_the_middle) std::this_thread::sleep_for(1000ms);  // computes, and does not call MPI
  progress.wait(call);
  if (!in_the_middle) CHECK(Clock::now() - begin < 700ms);
  progress.release(call);
  CHECK(x == std::vector<double>(100'000, 5.0));
  synchronize();
}

TEST_CASE("the helper thread sleeps while only calls are pending that do not need it")
{
  Communicators all;
  const auto& context = all.context;
  if (context.size == 1) return;
  MpiProgress progress{all.control, true};
  std::this_thread::sleep_for(200ms);  // until the helper sleeps
  for (const bool needs_helper : {false, true})
  {
    CAPTURE(needs_helper);
    std::vector<int> x{1};
    const Call<int> sum{CallKind::all_reduce, x, x, 1};
    const auto start = [&] { return &progress.start(context, 1, true, sum, 0, needs_helper); };
    auto* call = context.rank == 0 ? start() : nullptr;
    synchronize();
    if (context.rank > 0) call = start();  // completes the messages that rank 0 waits for
    synchronize();
    std::this_thread::sleep_for(200ms);
    const auto is_active = [&](MpiFailures&) { return call->active; };  // while nobody calls MPI
    if (context.rank == 0) CHECK(progress.with_failures(is_active) == !needs_helper);
    progress.wait(*call);
    CHECK(x[0] == context.size);
    progress.release(*call);
    synchronize();
  }
}

TEST_CASE("a failure that a rank reports ends the calls of the others")
{
  const Watchdog watchdog;
  Communicators all;
  const auto& context = all.context;
  MpiProgress progress{all.control, false};
  synchronize();
  if (context.rank == 0)
  {
    std::this_thread::sleep_for(5ms);
    progress.with_failures(
        [](MpiFailures& f) { f.broadcast("rank 0 failed (no file)", MpiFailures::Kind::error); });
    CHECK(is_broken(progress));
  }
  else
  {
    std::vector<int> x(1);
    const auto text = message_of<PeerFailed>([&] {
      auto& call = progress.start(context, 1, false, Call<int>{CallKind::receive, {}, x, 1, 0});
      struct Release
      {
        MpiProgress& progress;
        detail::MpiPendingCall& call;
        ~Release() { progress.release(call); }
      } release{progress, call};
      progress.wait(call);
    });
    CHECK(text == "rank 0 failed (no file)");
    CHECK(progress.with_failures([](MpiFailures& f) { return f.source(); }) == 0);
    CHECK(is_broken(progress));
    const auto later = message_of<PeerFailed>([&] {
      (void)progress.start(context, 2, false, Call<int>{CallKind::receive, {}, x, 1, 0});
    });
    CHECK(later == text);
  }
  synchronize();
}

TEST_CASE("a blocking call of MPI returns within the limit")
{
  const Watchdog watchdog;
  Communicators all;
  MpiProgress progress{all.control, false, 10s};
  CHECK(progress.has_limit());
  const auto begin = Clock::now();
  CHECK(progress.call_blocking_mpi("a test", [] { return 7; }) == 7);
  CHECK(Clock::now() - begin < 5s);
  synchronize();
}

TEST_CASE("a wait ends at the limit")
{
  const Watchdog watchdog;
  Communicators all;
  const auto& context = all.context;
  MpiProgress progress{all.control, false, 150ms};
  synchronize();
  std::vector<int> x(1);
  const auto begin = Clock::now();
  // Each rank waits for a message from itself, which it does not send.
  auto& call =
      progress.start(context, 0, false, Call<int>{CallKind::receive, {}, x, 1, context.rank});
  const auto text = message_of<CommunicationError>([&] { progress.wait(call); });
  progress.release(call);
  CHECK(Clock::now() - begin >= 100ms);
  const auto me = std::to_string(context.rank);
  const bool first = mentions(text, "waited for 150 ms in receive of 1 int32 on ranks {" + me,
                              "; nothing received from ranks {" + me + "}; fix");
  CHECK((first || mentions(text, "failed (waited for 150 ms in receive")));
  synchronize();
}

}  // namespace cubist::test::comm_mpi_progress_test
