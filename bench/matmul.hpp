// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// cubist_bench matmul: each scheme beside BLAS on all cores, in the same run.

#include <functional>

#include <CLI/CLI.hpp>

namespace bench
{

/// Adds the subcommand; it calls `run` with what it is to do.
void add_matmul(CLI::App& app, std::function<void()>& run);

}  // namespace bench
