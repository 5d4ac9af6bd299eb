// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The GPUs that the benchmarks run on.

#include "common/job.hpp"

namespace bench
{

/// Sets the GPUs of the job. All processes call it before any other use of a GPU.
/// @param share allows several MPI processes on one GPU: slow, for trials
/// @throws cubist::DeviceError if there is no GPU, cubist::ArgumentError for `share` with threads
void find_gpus(Job& job, bool share);

}  // namespace bench
