// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A product that a device rounds before anything is added to it. Otherwise nvcc fuses one of the
// products in a b + c d with the sum, but not the same one in every kernel, so the same update of a
// parameter would have different bits.

#include "cubist/core/host_device.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Returns a b, rounded to nearest.
[[nodiscard]] CUBIST_HOST_DEVICE inline float rounded_product(float a, float b)
{
#ifdef __CUDA_ARCH__
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}
[[nodiscard]] CUBIST_HOST_DEVICE inline double rounded_product(double a, double b)
{
#ifdef __CUDA_ARCH__
  return __dmul_rn(a, b);
#else
  return a * b;
#endif
}

}  // namespace cubist::CUBIST_ABI::detail
