// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Measures products of one size: a scheme beside BLAS on all cores and, under MPI, ScaLAPACK.

#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include <cubist/core/block.hpp>

#include "common/job.hpp"
#include "common/row.hpp"

namespace CLI
{
class App;
}

namespace bench
{

struct MatmulTask
{
  Setting on;
  cubist::ProductSize size;
  bool scalapack = true;  // also run ScaLAPACK, where there is one
  bool local = false;     // also multiply as much on each rank without any communication
  bool apart = false;     // also multiply and send as many elements, neither awaiting the other
};

/// Runs the benchmark. Every process calls it; the first one gets the row.
/// @throws cubist::Error if the results are wrong
[[nodiscard]] std::optional<Row> matmul_on(const Job& job, const MatmulTask& task);
[[nodiscard]] std::optional<Row> matmul_on_mpi(const MatmulTask& task);

/// Returns the sizes m, n and k as text: "2048x1024x512".
[[nodiscard]] std::string to_string(cubist::ProductSize size);
/// Parses sizes such as "2048x1024x512".
/// @throws cubist::ShapeError for anything else
[[nodiscard]] cubist::ProductSize parse_shape(const std::string& text);

[[nodiscard]] nlohmann::json to_json(const Job& job, const MatmulTask& task, const Row& row);

/// Prints a table's ScaLAPACK column.
void print_scalapack(const Row& row);

/// Adds the subcommand, which sets `action`.
void add_matmul(CLI::App& app, Action& action);

}  // namespace bench
