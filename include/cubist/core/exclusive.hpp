// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// What one thread may use at a time, and who finds another thread in it is told.

#include <atomic>

#include "cubist/core/error.hpp"

namespace cubist
{

/// A member of what is used by one thread at a time; a copy is free.
class Exclusive
{
 public:
  Exclusive() = default;
  Exclusive(const Exclusive&) {}
  Exclusive& operator=(const Exclusive&) { return *this; }

  /// Use, from here to the end of a scope.
  class Turn
  {
   public:
    explicit Turn(std::atomic<bool>& used) : used_{used} {}
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn() { used_.store(false); }

   private:
    std::atomic<bool>& used_;
  };

  /// @throws ArgumentError while there is another turn
  [[nodiscard]] Turn turn(const char* what)
  {
    require<ArgumentError>(!used_.exchange(true), "got a call of ", what,
                           " that another call is in, so both would write to its workspace; give "
                           "each thread its own");
    return Turn{used_};
  }

 private:
  std::atomic<bool> used_{false};
};

}  // namespace cubist
