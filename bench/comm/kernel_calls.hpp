// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Counts how many times this process has called the kernel to wait or to wake. The program replaces
// two functions of the C library by ones that count (kernel_calls.cpp). That library's locks call
// the kernel directly, and are not counted.

namespace bench
{

struct KernelCalls
{
  /// The calls since the process started.
  [[nodiscard]] static KernelCalls now();

  double yields = 0;
  double waits = 0;  // in a futex
  double wakes = 0;
};

}  // namespace bench
