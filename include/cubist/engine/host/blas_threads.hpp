// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// How many threads BLAS uses, which is one number for the whole process. The functions are
// OpenBLAS's and looked up weakly: with another BLAS they do nothing, and its own environment
// variables (BLIS_NUM_THREADS, MKL_NUM_THREADS) decide.

#include <string>

extern "C" {
[[gnu::weak]] void openblas_set_num_threads(int);
[[gnu::weak]] int openblas_get_num_threads();
[[gnu::weak]] char* openblas_get_corename();
}

namespace cubist
{

/// The kernels that BLAS chose for this processor, or "unknown"; Debian 12's OpenBLAS takes its
/// slow "Prescott" for processors newer than itself, and OPENBLAS_CORETYPE=SkylakeX mends that.
[[nodiscard]] inline std::string blas_core_name()
{
  return openblas_get_corename != nullptr ? openblas_get_corename() : "unknown";
}

/// How many threads a BLAS call has, or 0 if that is unknown.
[[nodiscard]] inline int blas_threads()
{
  return openblas_get_num_threads != nullptr ? openblas_get_num_threads() : 0;
}

/// Gives each BLAS call `threads` threads, until the end of the scope.
class BlasThreads
{
 public:
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

}  // namespace cubist
