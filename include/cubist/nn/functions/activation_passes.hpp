// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The passes of a layer that apply an activation function f or its derivative to a matrix.
//
//   b (1, N), repeated in every row    Z, Y, dY, dZ (M, N), all in the memory of one engine
//
// A loop over elements is compiled for each pass, each function and several instruction sets, so
// there is only one pass for forward and one for backward. A layer without a bias calls them with a
// bias of -0, because z + -0 is z to the bit, and ignores the sums.

#include <concepts>
#include <variant>

#include "cubist/core/host_device.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/engine/affine.hpp"
#include "cubist/nn/functions/activation.hpp"

namespace cubist::CUBIST_ABI::detail
{

template <>
inline constexpr KnownFunction known_function<GeluTanh> = KnownFunction::gelu_tanh;

/// g(f), f being an activation function, or the one that was chosen at run time.
template <class F, class G>
void with_function(const F& f, G g)
{
  if constexpr (std::same_as<F, Activation>)
    std::visit(g, f);
  else
    g(f);
}

/// f'(z) dy
template <class F>
struct Slope
{
  F f;
  template <class T>
  CUBIST_HOST_DEVICE T operator()(const T& dy, const T& z) const
  {
    return dy * f.derivative(z);
  }
};

/// Z += B; Y = f(Z)
template <class E, class F, class T>
void add_and_activate(const E& engine, const F& f, MatrixView<T> z, MatrixView<T> y,
                      MatrixView<const T> b)
{
  with_function(f, [&]<class G>(const G& g) { engine.for_each(AddAndActivate<G>{g}, z, y, b); });
}

/// Z = X W + b, Y = f(Z), of this rank's memory
template <class E, class F, class T>
void multiply_and_activate(const E& engine, MatrixView<const T> x, MatrixView<const T> w,
                           MatrixView<const T> b, const F& f, MatrixView<T> z, MatrixView<T> y)
{
  with_function(f, [&](const auto& g) { affine(engine, x, w, b, g, z, y); });
}

/// dZ = f'(Z) dY
template <class E, class F, class T>
void slopes(const E& engine, const F& f, MatrixView<const T> z, MatrixView<const T> dy,
            MatrixView<T> dz)
{
  with_function(f, [&]<class G>(const G& g) { engine.map(dz, Slope<G>{g}, dy, z); });
}

/// dZ = f'(Z) dY, and the sums of its columns
template <class E, class F, class T>
void slopes_and_sums(const E& engine, const F& f, MatrixView<const T> z, MatrixView<const T> dy,
                     MatrixView<T> dz, MatrixView<T> sums)
{
  with_function(f, [&]<class G>(const G& g) { engine.map_sums(dz, sums, Slope<G>{g}, dy, z); });
}

}  // namespace cubist::CUBIST_ABI::detail
