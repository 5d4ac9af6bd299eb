// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The pass of a layer that applies the derivative of an activation function f to a matrix. An
// epilogue applies f itself (engine/epilogue.hpp).
//
//   Z, dY, dZ (M, N), all in the memory of one engine
//
// Each pass compiles a loop over elements for each function and for several instruction sets, so
// forward and backward have only one pass each. A layer without a bias ignores the sums.

#include <cstddef>
#include <utility>
#include <variant>

#include "cubist/core/error.hpp"
#include "cubist/core/host_device.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/engine/epilogue.hpp"
#include "cubist/nn/dense/activation.hpp"

namespace cubist::CUBIST_ABI::detail
{

template <>
inline constexpr KnownFunction known_function<GeluTanh> = KnownFunction::gelu_tanh;

/// @throws ArgumentError if engine E cannot call f
template <class E>
void require_callable(const E&, const Activation& f)
{
  require<ArgumentError>(
      in_host_memory<E> || !std::holds_alternative<CalledActivation>(f),
      "got the program's own activation on a GPU, but kernels cannot call a function that is "
      "chosen at run time; use one of cubist's, add yours to them as CONTRIBUTING.md shows, or "
      "write a layer that maps it (docs/layers.md)");
}

/// Calls g(f) with the chosen function. std::visit does the same, but takes longer to compile.
/// @pre require_callable()
template <class E, class G>
void with_function(const E&, const Activation& f, G g)
{
  constexpr std::size_t own = std::variant_size_v<ChosenActivation> - 1;  // CalledActivation
  [&]<std::size_t... I>(std::index_sequence<I...>)
  {
    static_cast<void>(
        ((f.index() == I && (g(std::variant_alternative_t<I, ChosenActivation>{}), true)) || ...));
  }
  (std::make_index_sequence<own>{});
  if constexpr (in_host_memory<E>)
    if (f.index() == own) g(*std::get_if<own>(static_cast<const ChosenActivation*>(&f)));
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

/// Computes dZ = f'(Z) dY and the sums of its columns.
template <class E, class F, class T>
void slopes_and_sums(const E& engine, const F& f, MatrixView<const T> z, MatrixView<const T> dy,
                     MatrixView<T> dz, MatrixView<T> sums)
{
  with_function(engine, f,
                [&]<class G>(const G& g) { engine.map_sums(dz, sums, Slope<G>{g}, dy, z); });
}

}  // namespace cubist::CUBIST_ABI::detail
