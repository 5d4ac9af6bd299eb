// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A fake of a profiler, which NVTX finds in the program (static injection).

#include <string>
#include <vector>

namespace cubist::test::fake
{

/// Records the ranges of this thread from now on.
void record_ranges();
/// The ranges that began since then, each after two spaces for each range that it is in, and the
/// number of those that have not ended in `open`.
struct Ranges
{
  std::vector<std::string> names;
  int open = 0;
};
[[nodiscard]] Ranges recorded_ranges();

}  // namespace cubist::test::fake
