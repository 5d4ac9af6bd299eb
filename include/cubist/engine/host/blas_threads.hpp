// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The number of threads of BLAS, one setting for the whole process. OpenBLAS's functions are weak
// symbols: with another BLAS these do nothing, and that library's environment variables
// (BLIS_NUM_THREADS, MKL_NUM_THREADS) apply.

#include <string>

#include "cubist/version.hpp"

extern "C" {
/// OpenBLAS's, or null if another BLAS is linked.
[[gnu::weak]] void openblas_set_num_threads(int);
/// OpenBLAS's, or null if another BLAS is linked.
[[gnu::weak]] int openblas_get_num_threads();
/// OpenBLAS's, or null if another BLAS is linked.
[[gnu::weak]] char* openblas_get_corename();
}

namespace cubist::CUBIST_ABI
{

/// The kernels that BLAS selected for this processor, or "unknown".
[[nodiscard]] inline std::string blas_core_name()
{
  return openblas_get_corename != nullptr ? openblas_get_corename() : "unknown";
}

/// The number of threads of a BLAS call, or 0 if it is unknown.
[[nodiscard]] inline int blas_threads()
{
  return openblas_get_num_threads != nullptr ? openblas_get_num_threads() : 0;
}

/// Sets the number of threads of each BLAS call until the end of the scope.
class BlasThreads
{
 public:
  /// Until it is destroyed, BLAS uses this many threads.
  explicit BlasThreads(int threads)
  {
    if (openblas_set_num_threads == nullptr) return;
    before_ = openblas_get_num_threads();
    if (before_ != threads) openblas_set_num_threads(threads);
  }
  BlasThreads(const BlasThreads&) = delete;
  BlasThreads& operator=(const BlasThreads&) = delete;
  ~BlasThreads()
  {
    if (before_ != 0 && before_ != openblas_get_num_threads()) openblas_set_num_threads(before_);
  }

 private:
  int before_ = 0;
};

}  // namespace cubist::CUBIST_ABI
