// expect: output of layer First of this sequence is not the input of layer Second.*S::Next
// SPDX-License-Identifier: BSD-3-Clause
// The second of two layers of a cube is one of Cube3D::Next.
#include "cubist/backend/threads.hpp"
#include "cubist/nn/dense/dense.hpp"
#include "cubist/nn/sequential.hpp"
#include "cubist/scheme/cube3d.hpp"

using Mesh = cubist::Mesh<cubist::Cube3D, cubist::Threads>;
using First = cubist::Dense<cubist::Cube3D, cubist::Threads, float>;
#ifdef CUBIST_CONTROL
using Second = cubist::Dense<cubist::Cube3D::Next, cubist::Threads, float>;
#else
using Second = cubist::Dense<cubist::Cube3D, cubist::Threads, float>;
#endif

void chain(const Mesh& mesh)
{
  cubist::Sequential net{First{mesh, 7, 11}, Second{mesh, 11, 5, {.index = 1}}};
  (void)net;
}

int main() {}
