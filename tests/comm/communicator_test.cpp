// SPDX-License-Identifier: BSD-3-Clause
#include <random>

#include "cubist/comm/communicator.hpp"

#include "conformance.hpp"
#include "economy.hpp"

namespace cubist::test::comm_communicator_test
{

using World = TestBackend::Communicator;

TEST_CASE("the backend has a communicator")
{
  STATIC_REQUIRE(Communicator<World>);
  STATIC_REQUIRE_FALSE(Communicator<int>);
}

/// The sizes of groups that the backend supports.
static std::vector<int> group_sizes()
{
  return those_that_fit<TestBackend>(conformance::group_sizes);
}

/// The sizes of groups to test: only the largest two where many ranks on few cores are slow.
static std::vector<int> largest_group_sizes()
{
  auto sizes = group_sizes();
  if (many_are_slow<TestBackend> && sizes.size() > 2) sizes.erase(sizes.begin(), sizes.end() - 2);
  return sizes;
}

TEST_CASE("every rank receives the right data from every collective")
{
  using conformance::Form;
  const int size = GENERATE(from_range(largest_group_sizes()));
  for (const Form form : conformance::forms)
    require_clear(on_ranks<TestBackend>(size, [&](World& world) {
      return conformance::every_collective(world, [&](int) { return form; });
    }));
  // Each rank uses another form.
  require_clear(on_ranks<TestBackend>(size, [](World& world) {
    const auto form_of = [](int rank) {
      return conformance::forms[static_cast<std::size_t>(rank) % 3];
    };
    return conformance::every_collective(world, form_of, conformance::more_counts());
  }));
}

TEST_CASE("calls in flight together are completed in any order")
{
  const int size = GENERATE(from_range(group_sizes()));
  for (const std::size_t n : {0U, 1U, 7U, 5000U})
    require_clear(on_ranks<TestBackend>(
        size, [&](World& world) { return conformance::many_at_once(world, n); }));
  require_clear(
      on_ranks<TestBackend>(size, [](World& world) { return conformance::many_alike(world); }));
}

TEST_CASE("messages of a pair keep their order")
{
  const int size = GENERATE(from_range(group_sizes()));
  require_clear(on_ranks<TestBackend>(
      size, [](World& world) { return conformance::messages_in_order(world); }));
}

TEST_CASE("splits are by colour and ordered by key")
{
  const int size = GENERATE(from_range(group_sizes()));
  require_clear(
      on_ranks<TestBackend>(size, [](World& world) { return conformance::splits(world); }));
}

TEST_CASE("ranks know whether they are on several nodes")
{
  const int size = GENERATE(from_range(group_sizes()));
  require_clear(on_ranks<TestBackend>(size, [](World& world) {
    auto found = conformance::nodes(world);
    if (!on_processes<TestBackend>) found.check(!world.remote(), "threads are on one node");
    return found;
  }));
}

TEST_CASE("a copy of a communicator is the same communicator")
{
  const int size = GENERATE(from_range(group_sizes()));
  require_clear(
      on_ranks<TestBackend>(size, [](World& world) { return conformance::copies(world); }));
}

TEST_CASE("bad arguments throw at once and name the fix")
{
  const int size = GENERATE(from_range(group_sizes()));
  require_clear(
      on_ranks<TestBackend>(size, [](World& world) { return conformance::bad_arguments(world); }));
}

TEST_CASE("any contiguous range is a buffer")
{
  const int size = GENERATE(from_range(group_sizes()));
  require_clear(
      on_ranks<TestBackend>(size, [](World& world) { return conformance::any_range(world); }));
}

TEST_CASE("sums are bit-identical on every run")
{
  const int size = GENERATE(from_range(those_that_fit<TestBackend>(std::array{1, 2, 3, 6, 7, 8})));
  require_clear(on_ranks<TestBackend>(size, [](World& world) {
    std::mt19937 random{static_cast<unsigned>(world.rank())};
    const auto disturb = [&] {
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
    };
    return conformance::reproducible_sums(world, disturb);
  }));
}

#ifndef CUBIST_TEST_NCCL  // NCCL may ignore a NaN
TEST_CASE("a maximum and a minimum are a NaN whichever rank has it")
{
  const int size = largest_group_sizes().back();
  const auto lost = on_ranks<TestBackend>(size, [&](World& world) {
    int numbers = 0;
    for (int rank = 0; rank < size; ++rank)
      for (const ReduceOp op : {ReduceOp::max, ReduceOp::min})
      {
        std::vector<double> x(3, world.rank());
        if (world.rank() == rank) x[1] = std::numeric_limits<double>::quiet_NaN();
        world.all_reduce(std::span{x}, op);
        const double wanted = op == ReduceOp::max ? size - 1 : 0;
        numbers += is_nan(x[1]) && x[0] == wanted && x[2] == wanted ? 0 : 1;
      }
    return numbers;
  });
  for (const int n : lost) CHECK(n == 0);
}
#endif

TEST_CASE("16-bit sums are rounded after each addition")
{
  const int size = GENERATE(from_range(those_that_fit<TestBackend>(std::array{1, 3, 8})));
  require_clear(on_ranks<TestBackend>(size, [](World& world) {
    Findings found;
    conformance::short_sums<bfloat16>(world, found);
    conformance::short_sums<cubist::half>(world, found);
    return found;
  }));
}

}  // namespace cubist::test::comm_communicator_test
