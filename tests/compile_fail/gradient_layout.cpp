// expect: Rows<[^,]*AxisX, .*(Rows<[^,]*AxisZ, .*has layout Got|weight W is where X or dX goes)
// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/matmul/dist_matmul.hpp"
#include "cubist/scheme/cube3d.hpp"

#include "declared_backend.hpp"

using Product = cubist::DistMatMul<cubist::Cube3D, Declared, double>;

void multiply(Product& plan, Product::Output& dy, Product::Weight& w, Product::Input& dx,
              Product::Weight& dw)
{
#ifdef CUBIST_CONTROL
  plan.grad_input(dy, w, dx);
  (void)dw;
#else
  plan.grad_input(dy, w, dw);
  (void)dx;
#endif
}
