// expect: not an activation function.*operator\(\)\(x\) and derivative\(x\)
// SPDX-License-Identifier: BSD-3-Clause
// A layer needs the derivative of its activation.
#include "cubist/nn/networks/mlp.hpp"

struct Cube
{
  template <class T>
  T operator()(T x) const
  {
    return x * x * x;
  }
#ifdef CUBIST_CONTROL
  template <class T>
  T derivative(T x) const
  {
    return 3 * x * x;
  }
#endif
};

const cubist::MlpOptions options{.activation = Cube{}};
