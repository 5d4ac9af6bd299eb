// SPDX-License-Identifier: BSD-3-Clause

#include <complex>

#include "routines.hpp"

CUBIST_PBLAS_FUNCTIONS(std::complex<float>)

extern "C" {
CUBIST_PBLAS_GEMM(std::complex<float>, pcgemm, PCGEMM)
CUBIST_PBLAS_TRAN(std::complex<float>, pctranu, PCTRANU, 'T')
CUBIST_PBLAS_TRAN(std::complex<float>, pctranc, PCTRANC, 'C')
CUBIST_PBLAS_GEADD(std::complex<float>, pcgeadd, PCGEADD)
CUBIST_PBLAS_TRADD(std::complex<float>, pctradd, PCTRADD)
CUBIST_PBLAS_SYMM(std::complex<float>, pcsymm, PCSYMM, symmetric)
CUBIST_PBLAS_SYMM(std::complex<float>, pchemm, PCHEMM, hermitian)
CUBIST_PBLAS_TRIANGULAR(std::complex<float>, pctrmm, PCTRMM, false)
CUBIST_PBLAS_TRIANGULAR(std::complex<float>, pctrsm, PCTRSM, true)
CUBIST_PBLAS_SYRK(std::complex<float>, std::complex<float>, pcsyrk, PCSYRK, symmetric, "NT")
CUBIST_PBLAS_SYRK(std::complex<float>, float, pcherk, PCHERK, hermitian, "NC")
CUBIST_PBLAS_GEMR2D(std::complex<float>, std::complex<float>, pcgemr2d, PCGEMR2D)
CUBIST_PBLAS_TRMR2D(std::complex<float>, std::complex<float>, pctrmr2d, PCTRMR2D)
}
