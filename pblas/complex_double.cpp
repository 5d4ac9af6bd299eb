// SPDX-License-Identifier: BSD-3-Clause

#include <complex>

#include "routines.hpp"

CUBIST_PBLAS_FUNCTIONS(std::complex<double>)

extern "C" {
CUBIST_PBLAS_GEMM(std::complex<double>, pzgemm, PZGEMM)
CUBIST_PBLAS_TRAN(std::complex<double>, pztranu, PZTRANU, 'T')
CUBIST_PBLAS_TRAN(std::complex<double>, pztranc, PZTRANC, 'C')
CUBIST_PBLAS_GEADD(std::complex<double>, pzgeadd, PZGEADD)
CUBIST_PBLAS_TRADD(std::complex<double>, pztradd, PZTRADD)
}
