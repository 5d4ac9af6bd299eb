// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// What the scheduler knows about a rank: whether it runs or is parked, its pending calls, and the
// call that it waits for.

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "cubist/version.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// What one rank waits for.
class Waiter
{
 public:
  /// Does what can be done without waiting; returns whether nothing is left to do.
  virtual bool advance() = 0;
  /// Returns "all_reduce of 4 double on ranks {0, 1}, which rank 1 has not called".
  [[nodiscard]] virtual std::string describe() const = 0;
  /// The ranks that it waits for.
  [[nodiscard]] virtual std::vector<int> awaited() const { return {}; }

 protected:
  ~Waiter() = default;
};

enum class RankFlag : int
{
  running,
  notified,
  parked
};

/// The state of one rank, on its own cache line.
struct alignas(64) RankState
{
  std::atomic<RankFlag> flag{RankFlag::running};
  std::mutex mutex;  // a parked rank resumes only while it holds it
  std::vector<Waiter*> outstanding;
  std::vector<int> to_notify;
  const Waiter* waits_for = nullptr;
  bool finished = false;
};

}  // namespace cubist::CUBIST_ABI::detail
