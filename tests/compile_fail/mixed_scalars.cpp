// expect: no matching (member )?function for call to .*forward
// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/matmul/dist_matmul.hpp"
#include "cubist/scheme/summa2d.hpp"

#include "declared_backend.hpp"

template <class T>
using Product = cubist::DistMatMul<cubist::Summa2D, Declared, T>;

#ifdef CUBIST_CONTROL
using T = double;
#else
using T = float;
#endif

void multiply(Product<double>& plan, Product<T>::Input& x, Product<double>::Weight& w,
              Product<double>::Output& y)
{
  plan.forward(x, w, y);
}
