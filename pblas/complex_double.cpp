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
CUBIST_PBLAS_SYMM(std::complex<double>, pzsymm, PZSYMM, symmetric)
CUBIST_PBLAS_SYMM(std::complex<double>, pzhemm, PZHEMM, hermitian)
CUBIST_PBLAS_TRIANGULAR(std::complex<double>, pztrmm, PZTRMM, false)
CUBIST_PBLAS_TRIANGULAR(std::complex<double>, pztrsm, PZTRSM, true)
CUBIST_PBLAS_SYRK(std::complex<double>, std::complex<double>, pzsyrk, PZSYRK, symmetric, "NT")
CUBIST_PBLAS_SYRK(std::complex<double>, double, pzherk, PZHERK, hermitian, "NC")
CUBIST_PBLAS_GEMR2D(std::complex<double>, std::complex<double>, pzgemr2d, PZGEMR2D)
CUBIST_PBLAS_TRMR2D(std::complex<double>, std::complex<double>, pztrmr2d, PZTRMR2D)
}
