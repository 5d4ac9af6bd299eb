// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Finds the GPUs that the benchmarks run on.

#include "common/job.hpp"

namespace bench
{

/// Sets the job's GPUs. All processes call it before they use a GPU in any other way.
/// @param share  lets several MPI processes share a GPU: slow, for trials
/// @throws cubist::DeviceError if there is no GPU, cubist::ArgumentError for `share` with threads
void find_gpus(Job& job, bool share);

}  // namespace bench
