// SPDX-License-Identifier: BSD-3-Clause
#include <cstddef>

#include "cubist/plan/time.hpp"

#include "catch.hpp"
#include "simulated_machine.hpp"

namespace tools_simulated_machine_test
{

using namespace cubist;

TEST_CASE("a product takes the time that the planner predicts")
{
  const Machine machine;
  const auto simulated = simulated_machine(machine);
  CHECK_NOTHROW(require_valid(simulated));
  for (const std::size_t bytes : {sizeof(float), sizeof(double)})
  {
    const auto& rates = simulated.rates.at(bytes == sizeof(float) ? "float" : "double");
    // On the grid, and between its shapes.
    for (const auto& [size, tolerance] :
         {std::pair{ProductSize{.m = 512, .n = 2048, .k = 512}, 1e-9},
          std::pair{ProductSize{.m = 32'768, .n = 32, .k = 128}, 1e-9},
          std::pair{ProductSize{.m = 3000, .n = 300, .k = 1000}, 0.05}})
    {
      CAPTURE(bytes, size.m, size.n, size.k);
      const double predicted =
          seconds(LocalGemm{size.m, size.n, size.k}, Ranks{16, 16}, machine, bytes);
      CHECK(rates.seconds(size) == Approx(predicted).epsilon(tolerance));
    }
  }
}

TEST_CASE("links and cores are those of the machine")
{
  Machine machine;
  machine.ranks_per_node = 4;
  machine.cores = 8;
  machine.nodes_sharing = 2;
  machine.hidden = 0.75;
  const auto simulated = simulated_machine(machine);
  CHECK(simulated.ranks_per_node() == 4);
  CHECK(simulated.on_the_cores(64) == machine.on_the_cores(64));
  CHECK(simulated.memory_per_rank(64) == machine.memory_per_rank(64));
  CHECK(simulated.links[1].bandwidth == machine.across.bandwidth);
  // A message of a second, which is sent and received by two nodes, occupies a quarter of both.
  const double bytes = machine.across.bandwidth;
  CHECK(2 * bytes * simulated.links[1].core_seconds_per_byte == Approx(0.25 * machine.cores));
}

}  // namespace tools_simulated_machine_test
