// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A pointer with a separate value on each rank. If a rank is a thread or a process, the pointer
// belongs to the thread. If ranks share a thread (simulation/simulation.hpp), their scheduler swaps
// it.

#include "cubist/version.hpp"

namespace cubist::CUBIST_ABI::detail
{

[[nodiscard]] inline void*& rank_local()
{
  static thread_local void* pointer = nullptr;
  return pointer;
}

}  // namespace cubist::CUBIST_ABI::detail
