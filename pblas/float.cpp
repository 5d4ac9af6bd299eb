// SPDX-License-Identifier: BSD-3-Clause

#include <type_traits>

#include "routines.hpp"

CUBIST_PBLAS_FUNCTIONS(float)

// A scalar of the same size as an integer.
using AsLarge =
    std::conditional_t<sizeof(cubist_pblas::FortranInt) == sizeof(float), float, double>;

extern "C" {
CUBIST_PBLAS_GEMM(float, psgemm, PSGEMM)
CUBIST_PBLAS_TRAN(float, pstran, PSTRAN, 'T')
CUBIST_PBLAS_GEADD(float, psgeadd, PSGEADD)
CUBIST_PBLAS_TRADD(float, pstradd, PSTRADD)
CUBIST_PBLAS_SYMM(float, pssymm, PSSYMM, symmetric)
CUBIST_PBLAS_TRIANGULAR(float, pstrmm, PSTRMM, false)
CUBIST_PBLAS_TRIANGULAR(float, pstrsm, PSTRSM, true)
CUBIST_PBLAS_SYRK(float, float, pssyrk, PSSYRK, symmetric, "NTC")
CUBIST_PBLAS_GEMR2D(float, float, psgemr2d, PSGEMR2D)
CUBIST_PBLAS_TRMR2D(float, float, pstrmr2d, PSTRMR2D)
CUBIST_PBLAS_GEMR2D(AsLarge, cubist_pblas::FortranInt, pigemr2d, PIGEMR2D)
CUBIST_PBLAS_TRMR2D(AsLarge, cubist_pblas::FortranInt, pitrmr2d, PITRMR2D)
}
