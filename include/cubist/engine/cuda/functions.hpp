// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Adapts an engine's element functions to the signatures that kernels call. A function gets 16-bit
// elements as floats and elements of std::complex as Complex (core/complex.hpp), and must not
// return std::complex.

#include <cstddef>
#include <type_traits>

#include "cubist/core/complex.hpp"
#include "cubist/core/host_device.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/engine/widened.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Passes an element as an argument.
template <class T>
[[nodiscard]] CUBIST_HOST_DEVICE constexpr decltype(auto) device_value(const T& x)
{
  if constexpr (ComplexScalar<T>)
    return DeviceValue<T>{x};
  else
    return wide(x);
}

/// Checks and returns what a function returned.
template <class V>
[[nodiscard]] CUBIST_HOST_DEVICE constexpr const V& device_result(const V& x)
{
  static_assert(!ComplexScalar<V>,
                "this function returned std::complex to a kernel, but nvcc compiles operators of "
                "std::complex wrongly for a device, so its value could be wrong; return "
                "cubist::Complex (core/complex.hpp)");
  return x;
}

/// Sets element = value, rounded or converted to T.
template <class T, class V>
CUBIST_HOST_DEVICE void store(T& element, const V& value)
{
  if constexpr (ComplexScalar<T>)
    element = static_cast<T>(DeviceValue<T>{device_result(value)});
  else
    element = device_result(value);
}

/// Calls f(x…) as a function of (i, j, x…).
template <class F>
struct IgnoreIndices
{
  F f;
  template <class... T>
  CUBIST_HOST_DEVICE void operator()(std::size_t, std::size_t, T&... x) const
  {
    call(Widened<T, DeviceValue<std::remove_const_t<T>>>{x}...);
  }

 private:
  template <class... A>
  CUBIST_HOST_DEVICE void call(A... x) const
  {
    f(x.value...);
    (x.store(), ...);
  }
};

/// out = value
template <class T>
struct FillWith
{
  T value;
  CUBIST_HOST_DEVICE void operator()(DeviceValue<T>& out) const { out = value; }
};

/// out = f(in…), for the arguments of `IgnoreIndices`
template <class F>
struct StoreResult
{
  F f;
  template <class T, class... In>
  CUBIST_HOST_DEVICE void operator()(T& out, const In&... in) const
  {
    store(out, f(in...));
  }
};

/// out = f(i, j, in…)
template <class F>
struct StoreIndexedResult
{
  F f;
  template <class T, class... In>
  CUBIST_HOST_DEVICE void operator()(std::size_t i, std::size_t j, T& out, const In&... in) const
  {
    store(out, f(i, j, device_value(in)...));
  }
};

/// Calls f(i)(x…) as a function of (i, j, x…).
template <class F>
struct OfRow
{
  F f;
  template <class... T>
  CUBIST_HOST_DEVICE auto operator()(std::size_t i, std::size_t, const T&... x) const
  {
    return f(i)(x...);
  }
};

/// Sums column j of list l and rounds the sum once to T. If `adds`, adds it to what is there, as if
/// another rank had computed and sent the sum.
template <class T>
struct StoreSumOfRows
{
  MatrixView<const T> in;
  RowLists lists;
  MatrixView<T> out;
  bool adds;

  CUBIST_HOST_DEVICE void operator()(std::size_t l, std::size_t j) const
  {
    T& to = out(static_cast<std::size_t>(lists.targets[l]), j);
    const int* row = lists.rows + lists.starts[l];
    const int* const end = lists.rows + lists.starts[l + 1];
    if (adds && row == end) return;
    DeviceValue<T> sum{};
    if (row != end) sum = element(*row++, j);
    for (; row != end; ++row) sum += element(*row, j);
    if (!adds) return store(to, sum);
    DeviceValue<T> total = device_value(to);
    if constexpr (ShortReal<T>) sum = wide(T{sum});
    total += sum;
    store(to, total);
  }

 private:
  CUBIST_HOST_DEVICE DeviceValue<T> element(int row, std::size_t j) const
  {
    return device_value(in(static_cast<std::size_t>(row), j));
  }
};

/// out = f(in…); returns the value before it is rounded to T, for a sum
template <class F>
struct StoreAndSum
{
  F f;
  template <class T, class... In>
  CUBIST_HOST_DEVICE DeviceValue<T> operator()(std::size_t, std::size_t, T& out,
                                               const In&... in) const
  {
    const DeviceValue<T> value = device_result(f(device_value(in)...));
    store(out, value);
    return value;
  }
};

/// Returns f(i, j, in…), for a fold.
template <class F>
struct OfValues
{
  F f;
  template <class... In>
  CUBIST_HOST_DEVICE auto operator()(std::size_t i, std::size_t j, const In&... in) const
  {
    return f(i, j, device_value(in)...);
  }
};

/// Sets out to the value of f(i, j, in…), and returns its term, for a fold.
template <class F>
struct StoreAndFold
{
  F f;
  template <class T, class... In>
  CUBIST_HOST_DEVICE auto operator()(std::size_t i, std::size_t j, T& out, const In&... in) const
  {
    const auto both = f(i, j, device_value(in)...);
    store(out, both.value);
    return both.term;
  }
};

}  // namespace cubist::CUBIST_ABI::detail
