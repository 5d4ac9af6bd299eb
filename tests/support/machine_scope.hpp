// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <utility>

#include "cubist/backend/simulated.hpp"

namespace cubist::test
{

/// Simulates this machine until the end of the scope, and then the previous one again.
class MachineScope
{
 public:
  explicit MachineScope(Machine machine)
      : former_{std::exchange(Simulated::machine, std::move(machine))}
  {
  }
  MachineScope(const MachineScope&) = delete;
  MachineScope& operator=(const MachineScope&) = delete;
  ~MachineScope() { Simulated::machine = former_; }

 private:
  Machine former_;
};

}  // namespace cubist::test
