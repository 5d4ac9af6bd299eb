// expect: layer's output has a different layout from its input
// SPDX-License-Identifier: BSD-3-Clause
// One layer of a cube has an output layout that differs from its input's.
#include "cubist/backend/threads.hpp"
#include "cubist/nn/dense/dense.hpp"
#include "cubist/nn/residual.hpp"
#include "cubist/scheme/cube3d.hpp"
#include "cubist/scheme/summa2d.hpp"

#ifdef CUBIST_CONTROL
using Scheme = cubist::Summa2D;
#else
using Scheme = cubist::Cube3D;
#endif
using Layer = cubist::Dense<Scheme, cubist::Threads, float>;

void put_beside(const cubist::Mesh<Scheme, cubist::Threads>& mesh)
{
  cubist::Residual<Layer> residual{Layer{mesh, 8, 8}};
  (void)residual;
}

int main() {}
