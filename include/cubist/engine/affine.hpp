// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A product with bias and activation: Z = X W + b, and Y = f(Z).
//
//   X (M, K)    W (K, N)    b (1, N)    Z, Y (M, N), in the memory of one engine
//
// It is a product and one pass over the elements, or one call of an engine that fuses them
// (FusesAffine in engine/engine.hpp).

#include <cstdint>

#include "cubist/core/host_device.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/engine/functions.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// The functions that epilogues support.
enum class KnownFunction : std::uint8_t
{
  other,
  gelu_tanh
};

template <class F>
inline constexpr KnownFunction known_function = KnownFunction::other;

/// z += b; y = f(z)
template <class F>
struct AddAndActivate
{
  F f;
  template <class T>
  CUBIST_HOST_DEVICE void operator()(T& z, T& y, const T& b) const
  {
    const T sum = z + b;
    z = sum;
    y = f(sum);
  }
};

/// Z = X W + b
/// @throws ShapeError unless the shapes fit
template <class E, class T>
void affine(const E& engine, MatrixView<const T> x, MatrixView<const T> w, MatrixView<const T> b,
            MatrixView<T> z)
{
  if constexpr (FusesAffine<E, T>)
    if (engine.fused_affine(x, w, b, z)) return;
  engine.gemm(Op::none, Op::none, T{1}, x, w, T{}, z);
  engine.for_each(Add{}, z, b.repeated(z.rows()));
}

/// Z = X W + b, Y = f(Z)
/// @throws ShapeError unless the shapes fit
template <class E, class F, class T>
void affine(const E& engine, MatrixView<const T> x, MatrixView<const T> w, MatrixView<const T> b,
            const F& f, MatrixView<T> z, MatrixView<T> y)
{
  if constexpr (FusesAffine<E, T>)
    if (engine.fused_affine(x, w, b, f, z, y)) return;
  engine.gemm(Op::none, Op::none, T{1}, x, w, T{}, z);
  engine.for_each(AddAndActivate<F>{f}, z, y, b.repeated(z.rows()));
}

}  // namespace cubist::CUBIST_ABI::detail
