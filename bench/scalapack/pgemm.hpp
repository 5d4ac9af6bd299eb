// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// cubist::pgemm of block-cyclic matrices, beside ScaLAPACK's p?gemm, COSMA's where its library is
// named, and BLAS on all cores; and the products with one triangle beside ScaLAPACK's.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <cubist/core/block.hpp>
#include <cubist/machine/machine.hpp>

#include "common/job.hpp"
#include "common/times.hpp"

namespace CLI
{
class App;
}

namespace bench
{

struct PgemmTask
{
  std::string routine = "gemm";  // or symm, trmm, trsm, syrk, with the lower triangle
  cubist::ProductSize size;
  std::size_t block = 64;
  std::string scalar;
  bool transposed_b = false;
  int ranks = 1;
  int repeats = 5;
  int warm_up = 1;
  std::string cosma;  // libcosma_pxgemm.so, or empty
  cubist::Machine machine = {};
};

/// Seconds.
struct PgemmRow
{
  Times ours = {};
  double conversion = 0;  // that one rank converts, or copies, of a call; the longest of all ranks
  double product = 0;     // the same of what it multiplies
  std::string chosen = {};
  Times scalapack = {};
  Times cosma = {};
  Times blas = {};
};

/// The operations of a routine, as a fraction of those of gemm.
[[nodiscard]] inline double fraction_of_gemm(const std::string& routine)
{
  return routine == "gemm" || routine == "symm" ? 1 : 0.5;
}

/// Multiplies; every process calls it, the first one gets the row.
/// @throws cubist::Error if the results are wrong
[[nodiscard]] std::optional<PgemmRow> pgemm_on_mpi(const PgemmTask& task);

/// Adds the subcommand, which sets `action`.
void add_pgemm(CLI::App& app, Action& action);

}  // namespace bench
