// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Converts the arguments of functions that an engine maps or folds: 16-bit elements are passed as
// floats, and rounded when they are stored; others are passed unchanged. engine/cuda/functions.hpp
// adds what a device needs.

#include <complex>
#include <type_traits>

#include "cubist/core/complex.hpp"
#include "cubist/core/host_device.hpp"
#include "cubist/core/scalar.hpp"

namespace cubist::CUBIST_ABI::detail
{

template <class T>
[[nodiscard]] CUBIST_HOST_DEVICE constexpr const T& wide(const T& x)
{
  return x;
}
template <ShortReal T>
[[nodiscard]] CUBIST_HOST_DEVICE constexpr float wide(const T& x)
{
  return x;
}

/// Converts a function's result to the type in which the host's engine stores it.
template <class V>
[[nodiscard]] constexpr const V& element_of(const V& value)
{
  return value;
}
template <class T>
[[nodiscard]] constexpr std::complex<T> element_of(const Complex<T>& value)
{
  return static_cast<std::complex<T>>(value);
}

/// Passes an element as an argument of type V; `store` stores what the function wrote, rounded or
/// converted.
template <class T, class V = Accumulator<std::remove_const_t<T>>>
struct Widened
{
  T& element;
  std::conditional_t<std::is_const_v<T>, const V, V> value;
  CUBIST_HOST_DEVICE explicit Widened(T& x)
      : element{x},
        value{x}
  {
  }
  CUBIST_HOST_DEVICE void store() const
  {
    if constexpr (!std::is_const_v<T>) element = static_cast<T>(value);
  }
};
template <class T>
struct Widened<T, std::remove_const_t<T>>
{
  T& value;
  CUBIST_HOST_DEVICE explicit Widened(T& x)
      : value{x}
  {
  }
  CUBIST_HOST_DEVICE void store() const {}
};

/// Calls f with widened elements.
template <class F>
struct OnWidened
{
  F f;
  CUBIST_CALLS_ANY
  template <class... T>
  CUBIST_HOST_DEVICE void operator()(T&... x) const
  {
    call(Widened<T>{x}...);
  }

 private:
  CUBIST_CALLS_ANY
  template <class... W>
  CUBIST_HOST_DEVICE void call(W... x) const
  {
    f(x.value...);
    (x.store(), ...);
  }
};

/// Wraps f if any of the types T has 16 bits.
template <class... T, class F>
[[nodiscard]] auto on_widened(F f)
{
  if constexpr ((ShortReal<std::remove_const_t<T>> || ...))
    return OnWidened<F>{f};
  else
    return f;
}

}  // namespace cubist::CUBIST_ABI::detail
