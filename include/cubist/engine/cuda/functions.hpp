// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Adapters of an engine's element functions to the signatures that kernels call.

#include <cstddef>

#include "cubist/core/host_device.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/widened.hpp"

namespace cubist::detail
{

/// f(x…) as a function of (i, j, x…).
template <class F>
struct IgnoreIndices
{
  F f;
  template <class... T>
  CUBIST_HOST_DEVICE void operator()(std::size_t, std::size_t, T&... x) const
  {
    f(x...);
  }
};

/// out = value
template <class T>
struct FillWith
{
  T value;
  CUBIST_HOST_DEVICE void operator()(Accumulator<T>& out) const { out = value; }
};

/// out = f(in…)
template <class F>
struct StoreResult
{
  F f;
  template <class T, class... In>
  CUBIST_HOST_DEVICE void operator()(T& out, const In&... in) const
  {
    out = f(in...);
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
    out = f(i, j, wide(in)...);
  }
};

/// out = f(in…); returns the value before it is rounded to T, for a sum.
template <class F>
struct StoreAndSum
{
  F f;
  template <class T, class... In>
  CUBIST_HOST_DEVICE Accumulator<T> operator()(std::size_t, std::size_t, T& out,
                                               const In&... in) const
  {
    const Accumulator<T> value = f(wide(in)...);
    out = value;
    return value;
  }
};

}  // namespace cubist::detail
