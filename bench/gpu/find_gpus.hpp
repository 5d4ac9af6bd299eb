// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The GPUs that the benchmarks run on.

#include "../job.hpp"

namespace bench
{

/// Makes them part of what is known of the job. Every process calls it, before all else that needs
/// a GPU.
/// @param share lets MPI's processes share GPUs where they are more: slow, to try things out
/// @throws cubist::DeviceError if there is none, cubist::ArgumentError for threads that shall share
void find_gpus(Job& job, bool share);

}  // namespace bench
