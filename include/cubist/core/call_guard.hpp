// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Detects concurrent calls of an object that one thread may use at a time.

#include <atomic>
#include <memory>

#include "cubist/core/error.hpp"

namespace cubist::CUBIST_ABI
{

/// A member of such an object. A copy of the object is not in a call.
class CallGuard
{
 public:
  CallGuard() = default;
  CallGuard(const CallGuard&) {}
  CallGuard& operator=(const CallGuard&) { return *this; }

  /// A call, until the end of the scope.
  struct End
  {
    void operator()(std::atomic<bool>* active) const { active->store(false); }
  };
  /// Ends the call when it is destroyed.
  using Scope = std::unique_ptr<std::atomic<bool>, End>;

  /// @param what the object, for the message: "a plan"
  /// @throws ArgumentError while another call is active
  [[nodiscard]] Scope enter(const char* what)
  {
    require<ArgumentError>(
        !active_.exchange(true), "got a call of ", what,
        " while another call is in progress, so both would write to its workspace; "
        "give each thread its own");
    return Scope{&active_};
  }

 private:
  std::atomic<bool> active_{false};
};

}  // namespace cubist::CUBIST_ABI
