// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// What a layer does with a product Z = X W as it writes the result: Z += b, then Y = f(Z).
//
//   X (M, K)    W (K, N)    b (1, N)    Z, Y (M, N), in the memory of one engine
//
// An epilogue is data that a product takes with its operands. This header executes it in the
// product's call if the engine fuses them (FusesAffine in engine/engine.hpp), or else in one pass
// over the elements after the product.

#include <cstdint>

#include "cubist/core/host_device.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/engine/functions.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// The functions that an engine's library may support in an epilogue.
enum class KnownFunction : std::uint8_t
{
  other,
  gelu_tanh
};

template <class F>
inline constexpr KnownFunction known_function = KnownFunction::other;

/// Z += b, Y = f(Z)
/// @tparam F  a function of elements, or a type that holds one, which with_function() finds
template <class T, class F = void>
struct Epilogue
{
  MatrixView<const T> b;  ///< (1, N)
  const F& f;
  MatrixView<T> y;  ///< (M, N)
};

/// Z += b
template <class T>
struct Epilogue<T, void>
{
  MatrixView<const T> b;  ///< (1, N)
};

/// Calls g(f), where f is a function of elements. Overloads find the function that was chosen at
/// run time.
template <class E, class F, class G>
void with_function(const E&, const F& f, G g)
{
  g(f);
}

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

/// Executes the epilogue of Z = X W after the product.
/// @throws ShapeError unless the shapes fit
template <class E, class T>
void apply(const E& engine, const Epilogue<T>& epilogue, MatrixView<T> z)
{
  engine.for_each(Add{}, z, epilogue.b.repeated(z.rows()));
}
template <class E, class T, class F>
void apply(const E& engine, const Epilogue<T, F>& epilogue, MatrixView<T> z)
{
  with_function(engine, epilogue.f, [&]<class G>(const G& f) {
    engine.for_each(AddAndActivate<G>{f}, z, epilogue.y, epilogue.b.repeated(z.rows()));
  });
}

/// Computes a product and its epilogue in one call.
/// @returns false, and computes nothing, if the engine does not fuse them
template <class E, class T>
[[nodiscard]] bool fused(const E& engine, MatrixView<const T> x, MatrixView<const T> w,
                         const Epilogue<T>& epilogue, MatrixView<T> z)
{
  if constexpr (FusesAffine<E, T>)
    return engine.fused_affine(x, w, epilogue.b, z);
  else
    return false;
}
template <class E, class T, class F>
[[nodiscard]] bool fused(const E& engine, MatrixView<const T> x, MatrixView<const T> w,
                         const Epilogue<T, F>& epilogue, MatrixView<T> z)
{
  bool done = false;
  if constexpr (FusesAffine<E, T>)
    with_function(engine, epilogue.f, [&](const auto& f) {
      done = engine.fused_affine(x, w, epilogue.b, f, z, epilogue.y);
    });
  return done;
}

/// Computes Z = X W and its epilogue, for matrices that are whole in this rank's memory.
/// @throws ShapeError unless the shapes fit
template <class E, class T, class F>
void multiply(const E& engine, MatrixView<const T> x, MatrixView<const T> w,
              const Epilogue<T, F>& epilogue, MatrixView<T> z)
{
  if (fused(engine, x, w, epilogue, z)) return;
  engine.gemm(Op::none, Op::none, T{1}, x, w, T{}, z);
  apply(engine, epilogue, z);
}

}  // namespace cubist::CUBIST_ABI::detail
