// expect: Partial<[^,]*Row>.*this matrix has layout Got
// SPDX-License-Identifier: BSD-3-Clause
// A product takes a matrix, not the parts of one.
#include "cubist/matmul/dist_matmul.hpp"
#include "cubist/scheme/summa25d.hpp"

#include "declared_backend.hpp"

using Product = cubist::DistMatMul<cubist::Summa25D, Declared, double>;
#ifdef CUBIST_CONTROL
using L = cubist::Summa25D::Weight;
#else
using L = cubist::Layout<cubist::Rows<>, cubist::Cols<cubist::Col>, cubist::Partial<cubist::Row>>;
#endif

void multiply(Product& plan, Product::Input& x, cubist::DistMatrix<double, L, Product::Mesh>& w,
              Product::Output& y)
{
  plan.forward(x, w, y);
}
