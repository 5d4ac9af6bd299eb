// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A fake profiler, which NVTX finds in the program (static injection).

#include <string>
#include <vector>

namespace cubist::test::fake
{

/// Starts to record this thread's ranges.
void record_ranges();
/// The names of the recorded ranges, in the order in which they began, each indented by two spaces
/// for every range around it; and the number of ranges that are still open.
struct Ranges
{
  std::vector<std::string> names;
  int open = 0;
};
[[nodiscard]] Ranges recorded_ranges();

}  // namespace cubist::test::fake
