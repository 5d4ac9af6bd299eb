// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cstddef>
#include <vector>

#include "cubist/algorithm/direct/work_cut.hpp"

#include "catch.hpp"

namespace algorithm_direct_work_cut_test
{

using namespace cubist;
using namespace cubist::detail;

TEST_CASE("The workers of a cut make every product of two elements once")
{
  for (const ProductSize s : {ProductSize{7, 9, 11}, ProductSize{8, 4, 16}, ProductSize{1, 2, 3}})
    for (const std::size_t workers : {1U, 2U, 6U, 12U})
      for (const WorkCut& cut : work_cuts(workers))
      {
        CAPTURE(s.m, s.n, s.k, cut.m, cut.n, cut.k);
        CHECK(cut.workers() == workers);
        std::vector<int> times(s.m * s.n * s.k);
        for (std::size_t w = 0; w < workers; ++w)
        {
          const auto [rows, cols] = cut.block(s, w);
          const auto inner = cut.inner(s, w);
          for (std::size_t i = 0; i < rows.valid; ++i)
            for (std::size_t j = 0; j < cols.valid; ++j)
              for (std::size_t k = 0; k < inner.valid; ++k)
                ++times[((rows.offset + i) * s.n + cols.offset + j) * s.k + inner.offset + k];
          CHECK(Block{rows, cols}.padded() == cut.block(s, 0).padded());
        }
        CHECK(std::count(times.begin(), times.end(), 1) == static_cast<long>(times.size()));
      }
}

TEST_CASE("All cuts among so many workers are found, those of fewer sums first")
{
  CHECK(work_cuts(1) == std::vector<WorkCut>{{1, 1, 1}});
  CHECK(work_cuts(2) == std::vector<WorkCut>{{1, 2, 1}, {2, 1, 1}, {1, 1, 2}});
  CHECK(work_cuts(8).size() == 10);
}

}  // namespace algorithm_direct_work_cut_test
