// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Measures a step of Muon, without the network, beside the same products by BLAS on all cores. BLAS
// uses syrk for the product of a matrix with its transpose.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "common/job.hpp"
#include "common/row.hpp"

namespace CLI
{
class App;
}

namespace bench
{

struct MuonTask
{
  Setting on;
  std::vector<std::size_t> layers;  // features of the input, between the layers, and of the output
  std::string way;
  bool torch = false;  // whether to measure PyTorch's formula, too, where it is installed
};

/// Runs the benchmark. Every process calls it; the first one gets the row.
[[nodiscard]] std::optional<Row> muon_on(const Job& job, const MuonTask& task);
[[nodiscard]] std::optional<Row> muon_on_mpi(const MuonTask& task);

/// Adds the subcommand, which sets `action`.
void add_muon(CLI::App& app, Action& action);

}  // namespace bench
