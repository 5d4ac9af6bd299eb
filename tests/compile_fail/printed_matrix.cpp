// expect: deleted.*deleted
// SPDX-License-Identifier: BSD-3-Clause
// A distributed matrix cannot be printed, as a rank has only its shard.
#include <iostream>

#include "cubist/nn/networks/mlp.hpp"
#include "cubist/scheme/summa2d.hpp"

#include "declared_backend.hpp"

using Matrix = cubist::NetworkMatrix<cubist::Summa2D, Declared, float>;

void print(const Matrix::Even& x, const Matrix& y)
{
#ifdef CUBIST_CONTROL
  std::cout << x.shape() << y.shape();
#else
  std::cout << x;
  std::cout << y;
#endif
}
