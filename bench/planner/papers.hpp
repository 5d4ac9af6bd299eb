// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Simulates the papers on 2D, 2.5D and 3D tensor parallelism: blocks of a transformer, forward and
// backward, on the papers' schemes, shapes and machines, beside their tables (papers_tables.hpp).

#include <cstddef>
#include <string>
#include <vector>

#include <cubist/machine/machine.hpp>

#include "common/job.hpp"

namespace CLI
{
class App;
}

namespace bench
{

/// How a stack of blocks runs.
struct PaperRun
{
  std::string scheme;
  std::vector<int> mesh;
  std::size_t sequences = 1;
  std::size_t length = 512;
  std::size_t width = 0;
  std::size_t heads = 0;
  std::size_t layers = 24;
  bool overlap = true;     // whether communication overlaps with computation
  bool recompute = false;  // whether backward recomputes the blocks' outputs
  int tile = 1;            // a node holds this many rows and columns of a plane of the mesh
};

/// The times of all blocks together.
struct PaperTimes
{
  double forward = 0;  // seconds
  double backward = 0;
  double words = 0;     // elements that the busiest rank sends, forward and backward
  double products = 0;  // seconds of rank 0, forward and backward, as in the next two
  double passes = 0;
  double waits = 0;
  double memory = 0;  // bytes of the rank that needs the most
};

[[nodiscard]] PaperTimes simulate_paper_run(const PaperRun& run, const cubist::Machine& machine);

/// Adds the subcommand, which sets `action`.
void add_papers(CLI::App& app, Action& action);

}  // namespace bench
