// SPDX-License-Identifier: BSD-3-Clause
#include <thread>

#include "cubist/comm/wait_time.hpp"

#include "ranks.hpp"

namespace cubist::test::comm_wait_time_test
{

using namespace std::chrono_literals;
using World = TestBackend::Communicator;

/// How long each rank waits in call(world), which rank 0 makes 50 ms after the others.
template <class F>
std::vector<double> waits(F call)
{
  return on_ranks<TestBackend>(2, [&](World& world) {
    world.barrier();
    const double before = wait_seconds();
    if (world.rank() == 0) std::this_thread::sleep_for(50ms);
    call(world);
    return wait_seconds() - before;
  });
}

/// Repeats the measurement as long as other processes delay a rank.
template <class F>
void check_waits(F call)
{
  if (!fits(2)) return;
  auto found = waits(call);
  for (int i = 0; i < 200 && (found[0] >= 0.02 || found[1] < 0.045); ++i) found = waits(call);
  CHECK(found[0] < 0.02);
  CHECK(found[1] >= 0.045);
}

TEST_CASE("a rank that waits for another counts the time, and the other does not")
{
  check_waits([](World& world) { world.barrier(); });
}

TEST_CASE("a rank counts the time in which it waits for a window")
{
  if constexpr (ExposesMemory<World>)
  {
    if (!exposes<TestBackend>()) SKIP_TEST("ranks of this backend do not read each other's memory");
    if (!fits(2)) return;
    check_waits([](auto& world) {
      const std::array<double, 1> mine{};
      auto window = world.expose(mine);
      (void)window[1 - world.rank()];
      window.close();
      window.wait();
    });
  }
}

#ifndef CUBIST_TEST_NCCL  // with NCCL no call is complete before the device has run it
TEST_CASE("a call that is complete counts nothing")
{
  const auto found = on_ranks<TestBackend>(1, [](World& world) {
    const double before = wait_seconds();
    std::vector<double> x(100);
    for (int i = 0; i < 100; ++i) world.all_reduce(x);
    return wait_seconds() - before;
  });
  CHECK(found == std::vector{0.0});
}
#endif

}  // namespace cubist::test::comm_wait_time_test
