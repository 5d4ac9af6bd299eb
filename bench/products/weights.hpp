// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Measures products of a few rows and a large weight, as for the next token of a text, for each way
// to store the weight. They run on one core, beside a copy that reads and writes as many bytes.

#include "common/job.hpp"

namespace CLI
{
class App;
}

namespace bench
{

/// Adds the subcommand, which sets `action`.
void add_weights(CLI::App& app, Action& action);

}  // namespace bench
