// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Runs forward and backward passes of one layer in a test, and holds what forward leaves for
// backward. After each backward pass the gradients of parameters are complete.

#include "cubist/gradients/gradient_reducer.hpp"
#include "cubist/nn/layer.hpp"

namespace cubist::test
{

template <class L>
struct Passes
{
  L& layer;
  typename L::Kept kept = {};
  ImmediateSums<typename L::Value, typename L::Mesh> sums = {};

  template <class X>
  auto& forward(const X& x, const Pass& pass)
  {
    return layer.forward(x, pass, kept);
  }
  template <class X, class Y>
  auto* backward(const X& x, const Y& dy, const Pass& pass, bool wants_dx)
  {
    return layer.backward(x, dy, {pass, sums}, kept, wants_dx);
  }
};
template <class L>
Passes(L&) -> Passes<L>;

}  // namespace cubist::test
