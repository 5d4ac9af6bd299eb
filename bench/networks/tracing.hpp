// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Measures what a trace costs: recorded and unrecorded steps of a network take turns on threads.

#include "common/job.hpp"

namespace CLI
{
class App;
}

namespace bench
{

/// Adds the subcommand, which sets `action`.
void add_tracing(CLI::App& app, Action& action);

}  // namespace bench
