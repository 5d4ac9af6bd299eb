// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Measures cubist::pgemm on block-cyclic matrices beside ScaLAPACK's p?gemm, COSMA's if its library
// is named, and BLAS on all cores; and products with one triangle beside ScaLAPACK's.

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
  std::string routine = "gemm";  // or symm, trmm, trsm or syrk, with the lower triangle
  cubist::ProductSize size;
  std::size_t block = 64;
  std::string scalar;
  bool transposed_b = false;
  int ranks = 1;
  int repeats = 5;
  int warm_up = 1;
  std::string cosma;  // path of libcosma_pxgemm.so, or empty
  cubist::Machine machine = {};
};

/// The times of one product, in seconds.
struct PgemmRow
{
  Times ours = {};
  double conversion = 0;  // time that a rank converts or copies in one call; the longest counts
  double product = 0;     // time that a rank multiplies in one call; the longest counts
  std::string chosen = {};
  Times scalapack = {};
  Times cosma = {};
  Times blas = {};
};

/// Returns the number of operations of a routine as a fraction of gemm's.
[[nodiscard]] inline double fraction_of_gemm(const std::string& routine)
{
  return routine == "gemm" || routine == "symm" ? 1 : 0.5;
}

/// Runs the benchmark. Every process calls it; the first one gets the row.
/// @throws cubist::Error if the results are wrong
[[nodiscard]] std::optional<PgemmRow> pgemm_on_mpi(const PgemmTask& task);

/// Adds the subcommand, which sets `action`.
void add_pgemm(CLI::App& app, Action& action);

}  // namespace bench
