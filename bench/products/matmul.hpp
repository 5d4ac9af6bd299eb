// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Products of one size: a scheme beside BLAS on all cores and, under MPI, beside ScaLAPACK.

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
  bool scalapack = true;  // where there is one
  bool local = false;     // also what ranks could do if all their operands were their own
  bool apart = false;     // also that, and as many words sent, neither waiting for the other
};

/// Multiplies; every process calls it, the first one gets the row.
/// @throws cubist::Error if the results are wrong
[[nodiscard]] std::optional<Row> matmul_on(const Job& job, const MatmulTask& task);
[[nodiscard]] std::optional<Row> matmul_on_mpi(const MatmulTask& task);

/// "2048x1024x512": m, n and k; and back.
[[nodiscard]] std::string to_string(cubist::ProductSize size);
/// @throws cubist::ShapeError for anything else
[[nodiscard]] cubist::ProductSize parse_shape(const std::string& text);

[[nodiscard]] nlohmann::json to_json(const Job& job, const MatmulTask& task, const Row& row);

/// The ScaLAPACK column of a table.
void print_scalapack(const Row& row);

/// Adds the subcommand, which sets `action`.
void add_matmul(CLI::App& app, Action& action);

}  // namespace bench
