// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The lower triangle of a symmetric matrix C (N, N), packed into a rectangle of exactly N (N + 1) /
// 2 elements. BLAS computes there, and ranks send it without another copy. If C is cut after its
// first H = ceil(N / 2) rows and columns, the rectangle of H columns holds
//
//   below its diagonal       the lower triangle of C11, and under it C21
//   above it                 the upper triangle of C22
//
// For odd N, the diagonal of the rectangle is that of C11; for even N, that of C22.
// Source: Gustavson et al., "Rectangular Full Packed Format for Cholesky's Algorithm", ACM TOMS
// 37(2), 2010; LAPACK's sfrk.

#include <cstddef>

#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/engine/operand.hpp"
#include "cubist/engine/syrk.hpp"

namespace cubist::CUBIST_ABI::detail
{

template <RealScalar T>
class PackedTriangle
{
 public:
  /// @param data size(n) elements
  PackedTriangle(T* data, std::size_t n)
      : n_{n},
        half_{n - n / 2},
        packed_{data, {n + shift(), half_}}
  {
  }

  [[nodiscard]] static constexpr std::size_t size(std::size_t n) { return n * (n + 1) / 2; }

  /// Computes C = alpha A A^T.
  template <Engine E>
  void multiply(const E& engine, T alpha, Operand<const T> a) const
  {
    const auto first = a.block(0, 0, {half_, a.cols()});
    const auto second = a.block(half_, 0, {n_ - half_, a.cols()});
    syrk<E, T>(engine, Triangle::lower, alpha, first, T{}, first_block());
    cubist::multiply<E, T>(engine, alpha, second, first.t(), T{}, block_below());
    syrk<E, T>(engine, Triangle::upper, alpha, second, T{}, second_block());
  }

  /// Computes all of C = this + beta C0. The elements of C0 are not read if beta is 0. C may be C0.
  template <Engine E>
  void unpack(const E& engine, T beta, MatrixView<const T> c0, MatrixView<T> c) const
  {
    const std::size_t h = half_;
    const std::size_t rest = n_ - h;
    const auto add = [&](MatrixView<T> packed, std::size_t i, std::size_t j) {
      const auto out = c.block(i, j, packed.shape());
      add_scaled<E, T>(engine, packed, beta, c0.block(i, j, packed.shape()), out);
      return out;
    };
    mirror(engine, Triangle::lower, add(first_block(), 0, 0));
    mirror(engine, Triangle::upper, add(second_block(), h, h));
    const MatrixView<const T> below = add(block_below(), h, 0);
    transpose<E, T>(engine, below, c.block(0, h, {h, rest}));
  }

 private:
  [[nodiscard]] std::size_t shift() const { return n_ % 2 == 0 ? 1 : 0; }
  /// The block whose lower triangle is that of C11.
  [[nodiscard]] MatrixView<T> first_block() const
  {
    return packed_.block(shift(), 0, {half_, half_});
  }
  /// The block C21.
  [[nodiscard]] MatrixView<T> block_below() const
  {
    return packed_.block(half_ + shift(), 0, {n_ - half_, half_});
  }
  /// The block whose upper triangle is that of C22.
  [[nodiscard]] MatrixView<T> second_block() const
  {
    return packed_.block(0, 1 - shift(), {n_ - half_, n_ - half_});
  }

  std::size_t n_;
  std::size_t half_;
  MatrixView<T> packed_;
};

}  // namespace cubist::CUBIST_ABI::detail
