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
}
