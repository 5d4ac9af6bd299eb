// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace cubist::test
{

/// An activation function that a program defines: x, or a multiple of x where x is not positive.
struct Bend
{
  double slope;

  template <class T>
  T operator()(T x) const
  {
    return x * derivative(x);
  }
  template <class T>
  T derivative(T x) const
  {
    return x > 0 ? T{1} : static_cast<T>(slope);
  }
};

}  // namespace cubist::test
