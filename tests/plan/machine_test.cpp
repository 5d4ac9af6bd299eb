// SPDX-License-Identifier: BSD-3-Clause
#include <cmath>
#include <limits>

#include "cubist/plan/machine.hpp"

#include "catch.hpp"
#include "ranks.hpp"

namespace plan_machine_test
{

using namespace cubist;
using namespace cubist::test;

TEST_CASE("Ranks of a node share its cores and memory")
{
  Machine machine;
  machine.cores = 4;
  machine.ranks_per_node = 8;
  machine.memory = 80;
  CHECK(machine.shares_memory(8));
  CHECK_FALSE(machine.shares_memory(9));
  CHECK(machine.on_a_node(3) == 3);
  CHECK(machine.on_a_node(100) == 8);
  CHECK(machine.share(3) == 1);
  CHECK(machine.share(8) == 0.5);
  CHECK(machine.share(100) == 0.5);
  CHECK(machine.memory_per_rank(2) == 40);
  CHECK(machine.memory_per_rank(100) == 10);
}

TEST_CASE("A rank multiplies on its share of the cores")
{
  Machine machine;
  machine.cores = 8;
  machine.ranks_per_node = 16;
  CHECK(machine.cores_to_multiply({1, 1}) == 8);
  CHECK(machine.cores_to_multiply({3, 3}) == 2);
  CHECK(machine.cores_to_multiply({1, 3}) == 2);
  CHECK(machine.cores_to_multiply({16, 16}) == 0.5);
  CHECK(machine.cores_to_multiply({8, 16}) == 1);
  CHECK(machine.cores_to_multiply({4, 64}) == 1);
}

TEST_CASE("Nodes that are namespaces of one machine share its cores")
{
  Machine machine;
  machine.cores = 2;
  machine.ranks_per_node = 1;
  machine.nodes_sharing = 4;
  CHECK(machine.share(1) == 1);
  CHECK(machine.share(4) == 0.5);
  CHECK(machine.share(8) == 0.5);
  CHECK(machine.cores_to_multiply({1, 4}) == 1);
  CHECK(machine.cores_to_multiply({4, 4}) == 0.5);
  CHECK(machine.on_a_node(4) == 1);
}

TEST_CASE("The rate of a core in float is its rate in double times a factor")
{
  Machine machine;
  machine.flops = 10;
  machine.float_factor = 3;
  CHECK(machine.rate(sizeof(float)) == 30);
  CHECK(machine.rate(sizeof(double)) == 10);
}

TEST_CASE("A machine with an invalid figure is refused")
{
  CHECK(message_of<ArgumentError>([] { require_valid(Machine{}); }).empty());
  const auto refused = [](auto spoil) {
    return message_of<ArgumentError>([&] {
      Machine machine;
      spoil(machine);
      require_valid(machine);
    });
  };
  CHECK(mentions(refused([](Machine& m) { m.hidden = 1.5; }), "got hidden = 1.5",
                 "use a number from 0 to 1"));
  CHECK(mentions(refused([](Machine& m) { m.flops = 0; }), "got flops = 0", "infinite or zero",
                 "use a positive number"));
  CHECK(mentions(refused([](Machine& m) { m.ranks_per_node = -1; }), "ranks_per_node = -1"));
  CHECK(mentions(refused([](Machine& m) { m.memory = std::nan(""); }), "memory = nan"));
  CHECK(mentions(
      refused([](Machine& m) { m.across.bandwidth = std::numeric_limits<double>::infinity(); }),
      "across.bandwidth = inf"));
  CHECK(mentions(refused([](Machine& m) { m.gemm.copy = 0; }), "gemm.copy = 0"));
  CHECK(mentions(refused([](Machine& m) { m.inside.latency = -1; }), "got a latency of -1",
                 "use 0 or more"));
}

}  // namespace plan_machine_test
