// SPDX-License-Identifier: BSD-3-Clause

// Only cubist refers to OpenBLAS's functions, so a linker takes none of them from a static library,
// and cubist does without.

#include "cubist/engine/host/blas_threads.hpp"

int main()
{
  const cubist::BlasThreads two{2};
  return cubist::blas_threads() == 0 && cubist::blas_core_name() == "unknown" ? 0 : 1;
}
