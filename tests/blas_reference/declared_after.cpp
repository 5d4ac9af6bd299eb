// SPDX-License-Identifier: BSD-3-Clause

// A function of OpenBLAS is declared after cubist has been included, and alone is called.

#include "cubist/engine/host/blas_threads.hpp"

extern "C" void openblas_set_num_threads(int);

int main()
{
  openblas_set_num_threads(5);
  return cubist::blas_threads() == 5 ? 0 : 1;
}
