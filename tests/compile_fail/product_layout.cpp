// expect: Rows<cubist::Row>.*Rows<cubist::Depth, cubist::Row>.*this matrix has layout Got
// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/backend/threads.hpp"
#include "cubist/matmul/dist_matmul.hpp"
#include "cubist/scheme/summa25d.hpp"

using Product = cubist::DistMatMul<cubist::Summa25D, cubist::Threads, double>;

void multiply(Product& plan, Product::Input& x, Product::Weight& w, Product::Output& y)
{
#ifdef CUBIST_CONTROL
  plan.forward(x, w, y);
#else
  plan.forward(w, w, y);
#endif
}
