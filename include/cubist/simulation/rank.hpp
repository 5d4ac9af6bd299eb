// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A rank of a simulation: its clock, its memory, and what it waits for.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "cubist/simulation/fiber.hpp"
#include "cubist/simulation/report.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Counts the bytes of a rank's matrices. Buffers keep it alive, because some outlive their rank's
/// body.
struct SimulatedMemory
{
  std::size_t now = 0;
  std::size_t peak = 0;
  std::size_t next_address = 0;

  void add(std::size_t bytes) { peak = std::max(peak, now += bytes); }
  void remove(std::size_t bytes) { now -= bytes; }
};

/// What a rank waits for, as the message about a deadlock describes it.
class SimulatedWait
{
 public:
  [[nodiscard]] virtual std::string describe() const = 0;

 protected:
  ~SimulatedWait() = default;
};

class Simulation;

struct SimulatedRank
{
  enum class State
  {
    ready,
    blocked,
    finished
  };

  Simulation* simulation = nullptr;
  int number = 0;
  double clock = 0;         // seconds since the launch
  std::uint64_t posts = 0;  // the number of calls that it has posted
  State state = State::ready;
  const SimulatedWait* waits_for = nullptr;
  SimulatedRankReport report = {};
  std::shared_ptr<SimulatedMemory> memory = std::make_shared<SimulatedMemory>();

  std::unique_ptr<Fiber> fiber = {};
  void* local = nullptr;  // rank_local(), while other ranks run

  /// The rank whose body runs on this thread, or null outside a body.
  [[nodiscard]] static SimulatedRank*& current()
  {
    static thread_local SimulatedRank* rank = nullptr;
    return rank;
  }
};

}  // namespace cubist::CUBIST_ABI::detail
