// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The functions that an engine is given, as functions that a kernel calls with the elements.

#include <cstddef>

#include "cubist/core/host_device.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/widened.hpp"

namespace cubist::detail
{

/// f as a function of indices, too, which it does not look at.
template <class F>
struct WithIndices
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
struct Become
{
  T value;
  CUBIST_HOST_DEVICE void operator()(Accumulator<T>& out) const { out = value; }
};

/// out = f(in…)
template <class F>
struct Mapped
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
struct MappedAt
{
  F f;
  template <class T, class... In>
  CUBIST_HOST_DEVICE void operator()(std::size_t i, std::size_t j, T& out, const In&... in) const
  {
    out = f(i, j, wide(in)...);
  }
};

/// out = f(in…), which is added, too.
template <class F>
struct MappedTerm
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
