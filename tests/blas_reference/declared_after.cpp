// SPDX-License-Identifier: BSD-3-Clause

// Declares a function of OpenBLAS after it has included cubist, and calls only that one.

#include "cubist/engine/host/blas_threads.hpp"

extern "C" void openblas_set_num_threads(int);

int main()
{
  openblas_set_num_threads(5);
  return cubist::blas_threads() == 5 ? 0 : 1;
}
