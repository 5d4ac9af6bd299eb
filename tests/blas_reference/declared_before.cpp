// SPDX-License-Identifier: BSD-3-Clause

// Declares OpenBLAS's functions before it includes cubist: the program and cubist call the same
// functions.

extern "C" {
void openblas_set_num_threads(int);
int openblas_get_num_threads();
}

#include "cubist/engine/host/blas_threads.hpp"

int main()
{
  openblas_set_num_threads(3);
  if (cubist::blas_threads() != 3) return 1;
  {
    const cubist::BlasThreads two{2};
    if (openblas_get_num_threads() != 2) return 2;
  }
  return openblas_get_num_threads() == 3 ? 0 : 3;
}
