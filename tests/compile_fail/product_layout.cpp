// expect: Rows<[^,]*Row>.*(Rows<[^,]*Depth, .*has layout Got|weight W is where X or dX goes)
// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/matmul/dist_matmul.hpp"
#include "cubist/scheme/summa25d.hpp"

#include "declared_backend.hpp"

using Product = cubist::DistMatMul<cubist::Summa25D, Declared, double>;

void multiply(Product& plan, Product::Input& x, Product::Weight& w, Product::Output& y)
{
#ifdef CUBIST_CONTROL
  plan.forward(x, w, y);
#else
  plan.forward(w, w, y);
#endif
}
