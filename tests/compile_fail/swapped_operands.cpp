// expect: the weight W or dW goes.*where X or dX goes.*where Y or dY goes
// SPDX-License-Identifier: BSD-3-Clause
// The error names operands of a product that have changed places.
#include "cubist/matmul/dist_matmul.hpp"
#include "cubist/scheme/summa25d.hpp"

#include "declared_backend.hpp"

using Product = cubist::DistMatMul<cubist::Summa25D, Declared, float>;
#ifdef CUBIST_CONTROL
using Input = Product::Input;
using Weight = Product::Weight;
#else
using Input = Product::Weight;
using Weight = Product::Input;
#endif

void multiply(Product& product, const Product::Input& x, const Product::Weight& w,
              Product::Output& y, const Input& first, const Weight& second, Input& third)
{
  product.require_operands(x, second, y);
  product.require_operands(first, w, y);
  product.require_operands(x, w, third);
}
