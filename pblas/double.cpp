// SPDX-License-Identifier: BSD-3-Clause

#include "routines.hpp"

CUBIST_PBLAS_FUNCTIONS(double)

extern "C" {
CUBIST_PBLAS_GEMM(double, pdgemm, PDGEMM)
CUBIST_PBLAS_TRAN(double, pdtran, PDTRAN, 'T')
CUBIST_PBLAS_GEADD(double, pdgeadd, PDGEADD)
CUBIST_PBLAS_TRADD(double, pdtradd, PDTRADD)
CUBIST_PBLAS_SYMM(double, pdsymm, PDSYMM, symmetric)
CUBIST_PBLAS_TRIANGULAR(double, pdtrmm, PDTRMM, false)
CUBIST_PBLAS_TRIANGULAR(double, pdtrsm, PDTRSM, true)
CUBIST_PBLAS_SYRK(double, double, pdsyrk, PDSYRK, symmetric, "NTC")
CUBIST_PBLAS_GEMR2D(double, double, pdgemr2d, PDGEMR2D)
CUBIST_PBLAS_TRMR2D(double, double, pdtrmr2d, PDTRMR2D)
}
