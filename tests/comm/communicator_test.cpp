// SPDX-License-Identifier: BSD-3-Clause
#include <array>
#include <chrono>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <tuple>
#include <type_traits>
#include <vector>

#include "cubist/comm/communicator.hpp"
#include "cubist/testing/counting.hpp"

#include "backend.hpp"
#include "catch.hpp"
#include "conformance.hpp"
#include "ranks.hpp"

using namespace cubist;
using namespace cubist::test;

namespace
{

// A decorator's work is the same everywhere.
using Backends = std::conditional_t<few_suffice<TestBackend>, std::tuple<TestBackend>,
                                    std::tuple<TestBackend, Counting<TestBackend>>>;

/// The sizes of groups that the backend can have.
template <class B>
std::vector<int> group_sizes()
{
  return those_that_fit<B>(conformance::group_sizes);
}

/// The largest two of them where many ranks on few cores are slow.
template <class B>
std::vector<int> largest_group_sizes()
{
  auto sizes = group_sizes<B>();
  if (many_are_slow<B> && sizes.size() > 2) sizes.erase(sizes.begin(), sizes.end() - 2);
  return sizes;
}

}  // namespace

TEST_CASE("ranges that a communicator takes")
{
  STATIC_REQUIRE(ElementRange<std::vector<float>>);
  STATIC_REQUIRE(ElementRange<const std::vector<float>>);
  STATIC_REQUIRE(ElementRange<std::span<const int>>);
  STATIC_REQUIRE(ElementRange<std::array<double, 3>>);
  STATIC_REQUIRE(ElementRange<int[3]>);
  STATIC_REQUIRE_FALSE(ElementRange<std::vector<bool>>);
  STATIC_REQUIRE_FALSE(ElementRange<std::vector<std::string>>);
  STATIC_REQUIRE_FALSE(ElementRange<int>);

  STATIC_REQUIRE(SendReceive<std::vector<float>, std::span<float>>);
  STATIC_REQUIRE(SendReceive<std::span<const float>, std::vector<float>>);
  STATIC_REQUIRE_FALSE(SendReceive<std::vector<float>, std::vector<double>>);
  STATIC_REQUIRE_FALSE(SendReceive<std::vector<float>, std::span<const float>>);
  STATIC_REQUIRE_FALSE(SendReceive<std::vector<float>, const std::vector<float>>);
}

TEMPLATE_LIST_TEST_CASE("the backends have communicators", "", Backends)
{
  STATIC_REQUIRE(Communicator<typename TestType::Communicator>);
  STATIC_REQUIRE_FALSE(Communicator<int>);
}

TEMPLATE_LIST_TEST_CASE("collectives bring the right data", "", Backends)
{
  using conformance::Form;
  const int size = GENERATE(from_range(largest_group_sizes<TestType>()));
  SECTION("in one form on all ranks")
  {
    for (const Form form : conformance::forms)
      require_clear(on_ranks<TestType>(size, [&](auto& world) {
        return conformance::every_collective(world, [&](int) { return form; });
      }));
  }
  SECTION("in another form on each rank")
  {
    require_clear(on_ranks<TestType>(size, [](auto& world) {
      return conformance::every_collective(
          world, [](int rank) { return conformance::forms[static_cast<std::size_t>(rank) % 3]; });
    }));
  }
}

TEMPLATE_LIST_TEST_CASE("calls under way together are completed in any order", "", Backends)
{
  const int size = GENERATE(from_range(group_sizes<TestType>()));
  for (const std::size_t n : {0U, 1U, 7U, 5000U})
    require_clear(
        on_ranks<TestType>(size, [&](auto& world) { return conformance::many_at_once(world, n); }));
  require_clear(
      on_ranks<TestType>(size, [](auto& world) { return conformance::many_alike(world); }));
}

TEMPLATE_LIST_TEST_CASE("messages of a pair keep their order", "", Backends)
{
  const int size = GENERATE(from_range(group_sizes<TestType>()));
  require_clear(
      on_ranks<TestType>(size, [](auto& world) { return conformance::messages_in_order(world); }));
}

TEMPLATE_LIST_TEST_CASE("groups are split by colour and ordered by key", "", Backends)
{
  const int size = GENERATE(from_range(group_sizes<TestType>()));
  require_clear(on_ranks<TestType>(size, [](auto& world) { return conformance::splits(world); }));
}

TEMPLATE_LIST_TEST_CASE("ranks know whether they are on several nodes", "", Backends)
{
  const int size = GENERATE(from_range(group_sizes<TestType>()));
  require_clear(on_ranks<TestType>(size, [](auto& world) {
    auto found = conformance::nodes(world);
    if (!on_processes<TestType>) found.check(!world.remote(), "threads are on one node");
    return found;
  }));
}

TEMPLATE_LIST_TEST_CASE("a copy of a communicator is the same communicator", "", Backends)
{
  const int size = GENERATE(from_range(group_sizes<TestType>()));
  require_clear(on_ranks<TestType>(size, [](auto& world) { return conformance::copies(world); }));
}

TEMPLATE_LIST_TEST_CASE("bad arguments throw at once and name the fix", "", Backends)
{
  const int size = GENERATE(from_range(group_sizes<TestType>()));
  require_clear(
      on_ranks<TestType>(size, [](auto& world) { return conformance::bad_arguments(world); }));
}

TEMPLATE_LIST_TEST_CASE("any contiguous range is a buffer", "", Backends)
{
  const int size = GENERATE(from_range(group_sizes<TestType>()));
  require_clear(
      on_ranks<TestType>(size, [](auto& world) { return conformance::any_range(world); }));
}

TEMPLATE_LIST_TEST_CASE("sums have the same bits on every run", "", Backends)
{
  const int size = GENERATE(from_range(those_that_fit<TestType>(std::array{1, 2, 3, 6, 7, 8})));
  require_clear(on_ranks<TestType>(size, [](auto& world) {
    std::mt19937 random{static_cast<unsigned>(world.rank())};
    const auto disturb = [&] {
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
    };
    using C = std::remove_cvref_t<decltype(world)>;
    return world.size() % 2 == 0 ? conformance::reproducible_sums<C, float>(world, disturb)
                                 : conformance::reproducible_sums<C, double>(world, disturb);
  }));
}

TEMPLATE_LIST_TEST_CASE("sums of 16 bits are rounded one by one", "", Backends)
{
  const int size = GENERATE(from_range(those_that_fit<TestType>(std::array{1, 3, 8})));
  require_clear(on_ranks<TestType>(size, [](auto& world) {
    Findings found;
    conformance::short_sums<bfloat16>(world, found);
    conformance::short_sums<cubist::half>(world, found);
    return found;
  }));
}
