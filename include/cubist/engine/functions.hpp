// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Functions that several algorithms map and fold.

#include <cstddef>

#include "cubist/core/finite.hpp"
#include "cubist/core/host_device.hpp"

namespace cubist::CUBIST_ABI::detail
{

struct Sum
{
  template <class T>
  CUBIST_HOST_DEVICE T operator()(const T& a, const T& b) const
  {
    return a + b;
  }
};

/// The larger of two, or a NaN if either is one.
struct Larger
{
  template <class T>
  CUBIST_HOST_DEVICE T operator()(const T& a, const T& b) const
  {
    return larger(a, b);
  }
};

/// The smaller of two, or a NaN if either is one.
struct Smaller
{
  template <class T>
  CUBIST_HOST_DEVICE T operator()(const T& a, const T& b) const
  {
    return smaller(a, b);
  }
};

/// Returns the element itself, for a fold.
struct Itself
{
  template <class T>
  CUBIST_HOST_DEVICE T operator()(std::size_t, std::size_t, const T& x) const
  {
    return x;
  }
};

/// Returns the element itself, for a map.
struct Same
{
  template <class T>
  CUBIST_HOST_DEVICE T operator()(const T& x) const
  {
    return x;
  }
};

/// What the function of a map_fold returns: an element, and a term of the fold.
template <class X, class V>
struct ValueAndTerm
{
  X value;
  V term;
};

/// x += y
struct Add
{
  template <class T>
  CUBIST_HOST_DEVICE void operator()(T& x, const T& y) const
  {
    x += y;
  }
};

/// factor x, where x has type T or what an engine passes in its place
template <class T>
struct Scaled
{
  T factor;

  template <class X>
  CUBIST_HOST_DEVICE X operator()(const X& x) const
  {
    return factor * x;
  }
  template <class X>
  CUBIST_HOST_DEVICE X operator()(std::size_t, std::size_t, const X& x) const
  {
    return factor * x;
  }
};

/// x + factor y, where x and y have type T or what an engine passes in its place
template <class T>
struct AddScaled
{
  T factor;

  template <class X, class Y>
  CUBIST_HOST_DEVICE X operator()(const X& x, const Y& y) const
  {
    return x + factor * y;
  }
};

}  // namespace cubist::CUBIST_ABI::detail
