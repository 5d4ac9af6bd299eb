// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// CBLAS's products, for every scalar type that CBLAS supports. Matrices are stored by rows, and
// their sizes have been checked.

#include <algorithm>
#include <complex>
#include <concepts>
#include <cstddef>
#include <limits>
#include <type_traits>

#include <xtensor-blas/xblas_config.hpp>
#include <xflens/cxxblas/drivers/drivers.h>  // CBLAS, as xtensor-blas declares it

#include "cubist/core/block.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/engine/host/gemm_semaphore.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// The scalars that BLAS multiplies.
template <class T>
concept BlasScalar = Scalar<T> && !ShortReal<T>;

inline int blas_int(std::size_t n)
{
  require<ShapeError>(n <= static_cast<std::size_t>(std::numeric_limits<int>::max()),
                      "got a local matrix with an extent of ", n,
                      ", but BLAS counts in 32 bits; cut it over more ranks");
  return static_cast<int>(n);
}
/// The leading dimension of a matrix, which CBLAS requires to be positive.
template <class T>
[[nodiscard]] int cblas_ld(MatrixView<T> m)
{
  return blas_int(std::max<std::size_t>(m.ld(), 1));
}
/// The elements of a matrix, of which CBLAS sees complex ones as pairs of real ones.
template <class T>
[[nodiscard]] auto* cblas_data(MatrixView<T> m)
{
  using R = Real<std::remove_const_t<T>>;
  return reinterpret_cast<std::conditional_t<std::is_const_v<T>, const R, R>*>(m.data());
}

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

/// Computes C = alpha op(A) op(B) + beta C.
template <BlasScalar T>
void cblas_gemm(Op op_a, Op op_b, ProductSize size, T alpha, MatrixView<const T> a,
                MatrixView<const T> b, T beta, MatrixView<T> c)
{
  auto* const gemm = cblas_routine<T>(cblas_sgemm, cblas_dgemm, cblas_cgemm, cblas_zgemm);
  const GemmSemaphore semaphore;
  gemm(CblasRowMajor, cblas_op<T>(op_a), cblas_op<T>(op_b), blas_int(size.m), blas_int(size.n),
       blas_int(size.k), cblas_factor(alpha), cblas_data(a), cblas_ld(a), cblas_data(b),
       cblas_ld(b), cblas_factor(beta), cblas_data(c), cblas_ld(c));
}

/// Computes y += alpha x op(B), for rows x and y.
template <std::floating_point T>
void cblas_gemv(Op op_b, T alpha, const T* x, MatrixView<const T> b, T* y)
{
  auto* const gemv = cblas_routine<T>(cblas_sgemv, cblas_dgemv, cblas_cgemv, cblas_zgemv);
  const GemmSemaphore semaphore;
  gemv(CblasRowMajor, op_b == Op::none ? CblasTrans : CblasNoTrans, blas_int(b.rows()),
       blas_int(b.cols()), alpha, b.data(), cblas_ld(b), x, 1, T{1}, y, 1);
}

/// Computes a triangle of C = alpha op(A) op(A)^T + beta C.
template <std::floating_point T>
void cblas_syrk(Triangle triangle, Op op, ProductSize size, T alpha, MatrixView<const T> a, T beta,
                MatrixView<T> c)
{
  auto* const syrk = cblas_routine<T>(cblas_ssyrk, cblas_dsyrk, cblas_csyrk, cblas_zsyrk);
  const GemmSemaphore semaphore;
  syrk(CblasRowMajor, cblas_triangle(triangle), cblas_op<T>(op), blas_int(size.n), blas_int(size.k),
       alpha, a.data(), cblas_ld(a), beta, c.data(), cblas_ld(c));
}

/// Computes B = alpha op(A) B, or B = alpha B op(A), with the inverse of op(A) if `solves`.
template <BlasScalar T>
void cblas_triangular(bool solves, const TriangularOperand& how, T alpha, MatrixView<const T> a,
                      MatrixView<T> b)
{
  auto* const trmm = cblas_routine<T>(cblas_strmm, cblas_dtrmm, cblas_ctrmm, cblas_ztrmm);
  auto* const trsm = cblas_routine<T>(cblas_strsm, cblas_dtrsm, cblas_ctrsm, cblas_ztrsm);
  const GemmSemaphore semaphore;
  (solves ? trsm : trmm)(CblasRowMajor, cblas_side(how.side), cblas_triangle(how.triangle),
                         cblas_op<T>(how.op),
                         how.diagonal == Diagonal::unit ? CblasUnit : CblasNonUnit,
                         blas_int(b.rows()), blas_int(b.cols()), cblas_factor(alpha), cblas_data(a),
                         cblas_ld(a), cblas_data(b), cblas_ld(b));
}

/// Computes C = alpha A B + beta C, or C = alpha B A + beta C, for a symmetric or Hermitian A.
template <BlasScalar T>
void cblas_symmetric(const SymmetricOperand& how, T alpha, MatrixView<const T> a,
                     MatrixView<const T> b, T beta, MatrixView<T> c)
{
  const auto call = [&](auto* routine) {
    const GemmSemaphore semaphore;
    routine(CblasRowMajor, cblas_side(how.side), cblas_triangle(how.triangle), blas_int(c.rows()),
            blas_int(c.cols()), cblas_factor(alpha), cblas_data(a), cblas_ld(a), cblas_data(b),
            cblas_ld(b), cblas_factor(beta), cblas_data(c), cblas_ld(c));
  };
  if constexpr (ComplexScalar<T>)
    if (how.symmetry == Symmetry::hermitian)
      return call(cblas_routine<T>(cblas_ssymm, cblas_dsymm, cblas_chemm, cblas_zhemm));
  call(cblas_routine<T>(cblas_ssymm, cblas_dsymm, cblas_csymm, cblas_zsymm));
}

}  // namespace cubist::CUBIST_ABI::detail
