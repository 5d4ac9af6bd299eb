// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/backend/simulated.hpp"
#include "cubist/engine/simulated/buffer.hpp"

#include "ranks.hpp"

namespace cubist::test::engine_simulated_buffer_test
{

TEST_CASE("a rank's buffers count as its memory while they live")
{
  const auto bytes = on_ranks<Simulated>(2, [](SimulatedCommunicator&) {
    const auto& memory = *detail::SimulatedRank::current()->memory;
    std::vector<std::size_t> now;
    {
      SimulatedBuffer<double> a(10);
      now.push_back(memory.now);
      SimulatedBuffer<float> b(6);
      now.push_back(memory.now);
      b = SimulatedBuffer<float>(1);
      now.push_back(memory.now);
      const SimulatedBuffer<double> copy = a;
      now.push_back(memory.now);
      const SimulatedBuffer<double> moved = std::move(a);
      now.push_back(memory.now);
      b.resize(3);
      now.push_back(memory.now);
    }
    now.push_back(memory.now);
    now.push_back(memory.peak);
    return now;
  });
  for (const auto& of_rank : bytes)
    CHECK(of_rank == std::vector<std::size_t>{80, 104, 84, 164, 164, 172, 0, 176});
}

TEST_CASE("empty buffers need no rank, others do")
{
  CHECK(SimulatedBuffer<float>(0).size() == 0);
  CHECK_THROWS_AS(SimulatedBuffer<float>(1), ArgumentError);
}

}  // namespace cubist::test::engine_simulated_buffer_test
