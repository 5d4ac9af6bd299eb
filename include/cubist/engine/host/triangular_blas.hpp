// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// CBLAS's products with a triangular, symmetric or Hermitian matrix, for every scalar type that
// CBLAS supports. Matrices are stored by rows.

#include <complex>
#include <concepts>

#include <xtensor-blas/xblas_config.hpp>
#include <xflens/cxxblas/drivers/drivers.h>  // CBLAS, as xtensor-blas declares it

#include "cubist/core/scalar.hpp"
#include "cubist/engine/engine.hpp"

namespace cubist::CUBIST_ABI::detail
{

[[nodiscard]] inline auto cblas_triangle(Triangle t)
{
  return t == Triangle::lower ? CblasLower : CblasUpper;
}
[[nodiscard]] inline auto cblas_side(Side s) { return s == Side::left ? CblasLeft : CblasRight; }
template <Scalar T>
[[nodiscard]] auto cblas_op(Op op)
{
  if (op == Op::none) return CblasNoTrans;
  return op == Op::adjoint && ComplexScalar<T> ? CblasConjTrans : CblasTrans;
}

/// Passes a factor as CBLAS takes it: a real one by value, a complex one by address.
template <Scalar T>
[[nodiscard]] auto cblas_factor(const T& x)
{
  if constexpr (ComplexScalar<T>)
    return reinterpret_cast<const Real<T>*>(&x);
  else
    return x;
}

/// Selects the routine for a scalar type from CBLAS's four.
template <Scalar T, class S, class D, class C, class Z>
[[nodiscard]] auto* cblas_routine(S* s, D* d, C* c, Z* z)
{
  if constexpr (std::same_as<T, float>)
    return s;
  else if constexpr (std::same_as<T, double>)
    return d;
  else if constexpr (std::same_as<T, std::complex<float>>)
    return c;
  else
    return z;
}

/// Computes B = alpha op(A) B, or B = alpha B op(A), with the inverse of op(A) if `solves`.
template <Scalar T>
void cblas_triangular(bool solves, const TriangularOperand& how, int m, int n, const T& alpha,
                      const T* a, int ld_a, T* b, int ld_b)
{
  using R = Real<T>;
  auto* const trmm = cblas_routine<T>(cblas_strmm, cblas_dtrmm, cblas_ctrmm, cblas_ztrmm);
  auto* const trsm = cblas_routine<T>(cblas_strsm, cblas_dtrsm, cblas_ctrsm, cblas_ztrsm);
  (solves ? trsm : trmm)(
      CblasRowMajor, cblas_side(how.side), cblas_triangle(how.triangle), cblas_op<T>(how.op),
      how.diagonal == Diagonal::unit ? CblasUnit : CblasNonUnit, m, n, cblas_factor(alpha),
      reinterpret_cast<const R*>(a), ld_a, reinterpret_cast<R*>(b), ld_b);
}

/// Computes C = alpha A B + beta C, or C = alpha B A + beta C, for a symmetric or Hermitian A.
template <Scalar T>
void cblas_symmetric(const SymmetricOperand& how, int m, int n, const T& alpha, const T* a,
                     int ld_a, const T* b, int ld_b, const T& beta, T* c, int ld_c)
{
  using R = Real<T>;
  const auto call = [&](auto* routine) {
    routine(CblasRowMajor, cblas_side(how.side), cblas_triangle(how.triangle), m, n,
            cblas_factor(alpha), reinterpret_cast<const R*>(a), ld_a, reinterpret_cast<const R*>(b),
            ld_b, cblas_factor(beta), reinterpret_cast<R*>(c), ld_c);
  };
  if constexpr (ComplexScalar<T>)
    if (how.symmetry == Symmetry::hermitian)
      return call(cblas_routine<T>(cblas_ssymm, cblas_dsymm, cblas_chemm, cblas_zhemm));
  call(cblas_routine<T>(cblas_ssymm, cblas_dsymm, cblas_csymm, cblas_zsymm));
}

}  // namespace cubist::CUBIST_ABI::detail
