// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Detects concurrent calls of an object that only one thread may use at a time.

#include <atomic>
#include <memory>

#include "cubist/core/error.hpp"

namespace cubist::CUBIST_ABI
{

/// Make this a member of such an object: it knows whether a call is active. A copy of the object
/// starts without an active call.
class CallGuard
{
 public:
  CallGuard() = default;
  CallGuard(const CallGuard&) {}
  CallGuard& operator=(const CallGuard&) { return *this; }

  /// Ends a call.
  struct End
  {
    void operator()(std::atomic<bool>* active) const { active->store(false); }
  };
  /// Ends the active call when it is destroyed.
  using Scope = std::unique_ptr<std::atomic<bool>, End>;

  /// Begins a call.
  /// @param what the object, for the message: "a plan"
  /// @throws ArgumentError while another call is active
  [[nodiscard]] Scope enter(const char* what)
  {
    require<ArgumentError>(
        !active_.exchange(true), "got a call of ", what,
        " while another call is in progress, so both would write to the same workspace; give each "
        "thread its own object");
    return Scope{&active_};
  }

 private:
  std::atomic<bool> active_{false};
};

}  // namespace cubist::CUBIST_ABI
