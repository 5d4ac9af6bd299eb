// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/machine/machine.hpp"

#include "ranks.hpp"

namespace cubist::test::machine_machine_test
{

TEST_CASE("Ranks of a node share its cores and memory")
{
  Machine machine;
  machine.cores = 4;
  machine.links.front().ranks = 8;
  machine.memory = 80;
  CHECK(machine.ranks_per_node() == 8);
  CHECK(machine.shares_memory(8));
  CHECK_FALSE(machine.shares_memory(9));
  CHECK(machine.on_a_node(3) == 3);
  CHECK(machine.on_a_node(100) == 8);
  CHECK(machine.share(3) == 1);
  CHECK(machine.share(8) == 0.5);
  CHECK(machine.share(100) == 0.5);
  CHECK(machine.memory_per_rank(2) == 40);
  CHECK(machine.memory_per_rank(100) == 10);
  machine.memory_bandwidth = 10;
  CHECK(machine.pass_bandwidth(8) == 10);
  machine.node_memory_bandwidth = 40;
  CHECK(machine.pass_bandwidth(8) == 5);
  CHECK(machine.pass_bandwidth(2) == 10);
}

TEST_CASE("Ranks that cannot read each other's memory do not share it")
{
  Machine machine;
  machine.shared_memory = false;
  CHECK_FALSE(machine.shares_memory(2));
}

TEST_CASE("One level of links makes one node of all ranks")
{
  Machine machine;
  machine.links = {{.name = "memory", .latency = 1e-6, .bandwidth = 4e9}};
  CHECK_NOTHROW(require_valid(machine));
  CHECK(machine.on_a_node(1'000'000) == 1'000'000);
  CHECK(machine.on_the_cores(1'000'000) == 1'000'000);
  CHECK(&machine.inside() == &machine.across());
}

TEST_CASE("A rank multiplies on its share of the cores")
{
  Machine machine;
  machine.cores = 8;
  CHECK(machine.cores_to_multiply({1, 1}) == 8);
  CHECK(machine.cores_to_multiply({3, 3}) == 2);
  CHECK(machine.cores_to_multiply({1, 3}) == 2);
  CHECK(machine.cores_to_multiply({16, 16}) == 0.5);
  CHECK(machine.cores_to_multiply({8, 16}) == 1);
  CHECK(machine.cores_to_multiply({4, 64}) == 1);
  CHECK(machine.threads(4) == 2);
  CHECK(machine.threads(64) == 1);
  CHECK(machine.shares_cores(9));
  CHECK_FALSE(machine.shares_cores(8));
}

TEST_CASE("Nodes that are namespaces of one machine share its cores")
{
  Machine machine;
  machine.cores = 2;
  machine.links.front().ranks = 1;
  machine.nodes_sharing = 4;
  CHECK(machine.share(1) == 1);
  CHECK(machine.share(4) == 0.5);
  CHECK(machine.share(8) == 0.5);
  CHECK(machine.cores_to_multiply({1, 4}) == 1);
  CHECK(machine.cores_to_multiply({4, 4}) == 0.5);
  CHECK(machine.on_a_node(4) == 1);
  CHECK(machine.shares_cores(3));
  machine.links.front().ranks = 8;
  machine.cores = 16;
  CHECK(machine.on_the_cores(64) == 32);
  CHECK(machine.threads(64) == 1);
}

TEST_CASE("Messages that occupy cores make ranks share them, and are not hidden")
{
  Machine machine;
  CHECK(machine.hidden(64) == 1);
  // A message that takes a second occupies a quarter of the two nodes that send and receive it,
  // each with 16 cores.
  machine.links.back().core_seconds_per_byte = 0.25 * 16 / machine.across().bandwidth / 2;
  CHECK(machine.shares_cores(2));
  CHECK(machine.hidden(64) == Approx(0.75));
  machine.nodes_sharing = 2;  // half of the cores, which both nodes share
  CHECK(machine.hidden(64) == Approx(0.5));
  CHECK(machine.hidden(16) == Approx(0.75));
  machine.nodes_sharing = 8;
  CHECK(machine.hidden(64) == Approx(0).margin(1e-12));
  CHECK(machine.hidden(128) == 0);
}

TEST_CASE("A product has the rate of its scalar")
{
  Machine machine;
  CHECK(machine.rates_of(sizeof(float)).largest() == 80e9);
  CHECK(machine.rates_of(sizeof(double)).largest() == 40e9);
  CHECK(machine.rates_of(2).largest() == 80e9);
  machine.rates["half"] = RateTable::constant(300e9);
  CHECK(machine.rates_of(2).largest() == 300e9);
  CHECK(machine.rates_of("half").largest() == 300e9);
  machine.rates.erase("double");
  CHECK(mentions(message_of<ArgumentError>([&] { (void)machine.rates_of(sizeof(double)); }),
                 "got a product of double", "no rates for it", "cubist_bench machine"));
}

TEST_CASE("Thin products also wait for memory where only the rate of large ones is known")
{
  Machine machine;
  machine.memory_bandwidth = 16;
  const ProductSize size{.m = 5, .n = 5, .k = 2};  // 100 operations, 80 elements
  CHECK(machine.product_seconds(RateTable::peak(100), size, 8) == Approx(1 + 80 * 8 / 16.0));
  CHECK(machine.product_seconds(RateTable::constant(100), size, 8) == Approx(1));
}

TEST_CASE("A machine with which times would be wrong is refused")
{
  CHECK_NOTHROW(require_valid(Machine{}));
  using Change = std::function<void(Machine&)>;
  const auto refused = [](const Change& spoil) {
    return message_of<ArgumentError>([&] {
      Machine machine;
      spoil(machine);
      require_valid(machine);
    });
  };
  constexpr double infinite = std::numeric_limits<double>::infinity();
  const std::vector<Change> changes = {[](auto& m) { m.cores = 0; },
                                       [](auto& m) { m.memory = std::nan(""); },
                                       [](auto& m) { m.memory_bandwidth = -1; },
                                       [](auto& m) { m.call_seconds = infinite; },
                                       [](auto& m) { m.links.clear(); },
                                       [](auto& m) { m.links.back().ranks = 64; },
                                       [](auto& m) { m.links.front().ranks = -1; },
                                       [](auto& m) { m.links.front().ranks = 0; },
                                       [](auto& m) { m.links.back().bandwidth = 0; },
                                       [](auto& m) { m.links.back().bandwidth = infinite; },
                                       [](auto& m) { m.links.back().latency = -1; },
                                       [](auto& m) {
                                         m.links.insert(m.links.begin() + 1, {"rack", 24, 0, 1e9});
                                       },
                                       [](auto& m) { m.rates.clear(); },
                                       [](auto& m) { m.rates["float"].rates.clear(); },
                                       [](auto& m) { m.rates["float"] = RateTable::peak(0); },
                                       [](auto& m) { m.gemm.copy = 0; }};
  for (std::size_t i = 0; i < changes.size(); ++i)
  {
    CAPTURE(i);
    CHECK_FALSE(refused(changes[i]).empty());
  }
  CHECK(mentions(refused(changes[1]), "got memory = nan", "negative or infinite",
                 "use a finite number that is at least 0"));
  CHECK(mentions(refused(changes[0]), "got cores = 0", "use a positive number"));
  CHECK(mentions(refused(changes.back()), "got gemm.copy = 0"));
}

}  // namespace cubist::test::machine_machine_test
