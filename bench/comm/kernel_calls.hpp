// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// How often this process has called the kernel in order to wait or to wake. The program replaces
// two functions of the C library by ones that count (kernel_calls.cpp). The locks of that library
// call the kernel themselves, and are not counted.

namespace bench
{

struct KernelCalls
{
  /// Since the process started.
  [[nodiscard]] static KernelCalls now();

  double yields = 0;
  double waits = 0;  // in a futex
  double wakes = 0;
};

}  // namespace bench
