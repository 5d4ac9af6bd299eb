// SPDX-License-Identifier: BSD-3-Clause

#include "routines.hpp"

CUBIST_PBLAS_FUNCTIONS(double)

extern "C" {
CUBIST_PBLAS_GEMM(double, pdgemm, PDGEMM)
CUBIST_PBLAS_TRAN(double, pdtran, PDTRAN, 'T')
CUBIST_PBLAS_GEADD(double, pdgeadd, PDGEADD)
CUBIST_PBLAS_TRADD(double, pdtradd, PDTRADD)
}
