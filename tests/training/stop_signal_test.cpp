// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/training/stop_signal.hpp"

#include "nn.hpp"

namespace cubist::test::stop_signal_test
{

/// The step after which each rank stops, where rank 2's process gets the signal in step 3.
static std::vector<int> stops(int signal)
{
  const StopSignal stop;
  auto steps = on_mesh(two_by_two, [&](const auto& mesh) {
    const StopSignal of_rank;
    for (int step = 1; step <= 9; ++step)
    {
      if (step == 3 && mesh.rank() == 2) std::raise(signal);
      if (of_rank.requested(mesh)) return step;
    }
    return 0;
  });
  StopSignal::reset();
  return steps;
}

TEST_CASE("all ranks stop in the step in which one of them gets a signal")
{
  if (!fits(two_by_two)) return;
  CHECK(stops(SIGTERM) == std::vector{3, 3, 3, 3});
  CHECK(stops(SIGUSR1) == std::vector{3, 3, 3, 3});
  CHECK(stops(0) == std::vector{0, 0, 0, 0});
}

TEST_CASE("a stop signal is an all_reduce of one number, and idle ranks take no part")
{
  using B = Counting<TestBackend>;
  if (!fits<B>(4)) return;
  const auto sent = on_ranks<B>(4, [](auto& world) {
    const Mesh<Summa2D, B> mesh{world, {3, 1}, IdleRanks::allowed};
    const StopSignal stop;
    if (!mesh.active()) return std::uint64_t{stop.requested(mesh)};
    mesh.world().traffic().reset();
    (void)stop.requested(mesh);
    return mesh.world().traffic().total().elements;
  });
  CHECK(std::accumulate(sent.begin(), sent.end(), std::uint64_t{0}) == 2 * 2);  // 2 (P-1)
}

/// The current handler of a signal.
static auto handler(int signal)
{
  struct sigaction action = {};
  sigaction(signal, nullptr, &action);
  return action.sa_handler;
}

TEST_CASE("the last stop signal restores the handlers, unless the process is about to end")
{
  const auto terminate = handler(SIGTERM);
  const auto user = handler(SIGUSR1);
  {
    std::optional<StopSignal> first{std::in_place};
    const StopSignal second;
    CHECK(handler(SIGTERM) != terminate);
    CHECK(handler(SIGUSR1) != user);
    first.reset();
    CHECK(handler(SIGTERM) != terminate);
    CHECK_FALSE(StopSignal::received());
  }
  CHECK(handler(SIGTERM) == terminate);
  CHECK(handler(SIGUSR1) == user);
  {
    const StopSignal stop;
    std::raise(SIGUSR1);
    CHECK(StopSignal::received());
  }
  std::raise(SIGTERM);  // does not end this process
  CHECK(StopSignal::received());
  {
    const StopSignal again;
    CHECK(StopSignal::received());
    StopSignal::reset();
    CHECK_FALSE(StopSignal::received());
    std::raise(SIGTERM);  // `again` still exists
    CHECK(StopSignal::received());
  }
  StopSignal::reset();
  CHECK_FALSE(StopSignal::received());
  CHECK(handler(SIGTERM) == terminate);
  CHECK(handler(SIGUSR1) == user);
}

}  // namespace cubist::test::stop_signal_test
