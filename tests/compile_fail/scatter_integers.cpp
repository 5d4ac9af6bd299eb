// expect: constrain.*Scalar
// SPDX-License-Identifier: BSD-3-Clause
// A matrix of integers must be converted before it is distributed.
#include "cubist/backend/threads.hpp"
#include "cubist/matrix/global.hpp"
#include "cubist/scheme/summa2d.hpp"

#ifdef CUBIST_CONTROL
using T = float;
#else
using T = int;
#endif

void distribute(cubist::Mesh<cubist::Summa2D, cubist::Threads>& mesh, const xt::xtensor<T, 2>& x)
{
  (void)cubist::scatter<cubist::Summa2D::Input>(mesh, x);
}
