// SPDX-License-Identifier: BSD-3-Clause
// The planner without the simulator: for --simulate, it starts cubist_plan_simulate, which contains
// it.

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include <unistd.h>

#include <cubist/core/error.hpp>

#include "simulate.hpp"

namespace cubist
{

void start_simulator(char** argv)
{
  std::error_code none;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", none)
                           .replace_filename("cubist_plan_simulate")
                           .string();
  execv(program.c_str(), argv);
  throw DataError{"got --simulate, but the simulator is another program, " + program +
                  ", which cannot be started; build and install cubist_plan_simulate "
                  "(CUBIST_BUILD_TOOLS=ON), or leave --simulate out"};
}

// Nothing calls these after start_simulator().
SimulatedCost simulated_cost(const Plan&, const SimulatedStep&, const Machine&) { std::abort(); }
SimulatedCost simulated_cost(const Plan&, const SimulatedTransformer&, const Machine&)
{
  std::abort();
}

}  // namespace cubist
