// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The tables of the papers on 2D, 2.5D and 3D tensor parallelism: shapes, and times of training
// steps with 24 layers on sequences of 512 tokens.
//
// Sources: Xu et al. (Optimus), arXiv 2104.05343, and its code, github.com/xuqifan897/Optimus; Wang
// et al. (Tesseract), arXiv 2105.14500, strong scaling; Bian et al. (3D), arXiv 2105.14450,
// table 2. docs/papers.md says which shapes are assumed.

#include <cstddef>
#include <string>
#include <vector>

namespace bench
{

inline constexpr std::size_t layers_of_papers = 24;

/// A row of a paper's table. Times are seconds for one sequence.
struct PaperRow
{
  std::string scheme;
  std::vector<int> mesh;
  std::size_t sequences;
  double forward;
  double backward;
  double step;  // as printed, or the sum of forward and backward
  std::string machine;
  int tile = 1;
};

/// A table. Its rows are compared with the last one.
struct Paper
{
  std::string name;
  std::string title;
  std::size_t width;
  std::size_t heads;
  std::vector<PaperRow> rows;
};

[[nodiscard]] std::vector<Paper> all_papers();

}  // namespace bench
