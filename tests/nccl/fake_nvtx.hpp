// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A fake profiler, which NVTX finds in the program (static injection).

#include <string>
#include <vector>

namespace cubist::test::fake
{

/// Records this thread's ranges from now on.
void record_ranges();
/// The ranges that have begun since, each indented by two spaces for every range around it, and in
/// `open` the number of those that have not ended.
struct Ranges
{
  std::vector<std::string> names;
  int open = 0;
};
[[nodiscard]] Ranges recorded_ranges();

}  // namespace cubist::test::fake
