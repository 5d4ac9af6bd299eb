// SPDX-License-Identifier: BSD-3-Clause

#include "routines.hpp"

CUBIST_PBLAS_FUNCTIONS(float)

extern "C" {
CUBIST_PBLAS_GEMM(float, psgemm, PSGEMM)
CUBIST_PBLAS_TRAN(float, pstran, PSTRAN, 'T')
CUBIST_PBLAS_GEADD(float, psgeadd, PSGEADD)
CUBIST_PBLAS_TRADD(float, pstradd, PSTRADD)
}
