// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The training of gpu_digits on one rank of the host, which nvcc does not compile.

#include "training.hpp"

namespace digits
{

[[nodiscard]] Run train_on_host(const cubist::RowBatches& data, const Settings& settings);

}  // namespace digits
