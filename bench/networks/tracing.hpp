// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// What a trace costs: recorded and unrecorded steps of a network, in turns, on threads.

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
