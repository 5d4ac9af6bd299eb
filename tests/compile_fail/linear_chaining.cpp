// expect: is_same_v<.*Rows<[^,]*AxisZ, [^,]*AxisX>.*Rows<[^,]*AxisZ, [^,]*AxisY>
// SPDX-License-Identifier: BSD-3-Clause
// The second of two layers of a cube is one of Cube3D::Next.
#include "cubist/backend/threads.hpp"
#include "cubist/nn/dense/linear.hpp"
#include "cubist/scheme/cube3d.hpp"

using Mesh = cubist::Mesh<cubist::Cube3D, cubist::Threads>;
using First = cubist::Linear<cubist::Cube3D, cubist::Threads, float>;
#ifdef CUBIST_CONTROL
using Second = cubist::Linear<cubist::Cube3D::Next, cubist::Threads, float>;
#else
using Second = cubist::Linear<cubist::Cube3D, cubist::Threads, float>;
#endif

void chain(const Mesh& mesh, const First::Input& x)
{
  First first{mesh, 7, 11};
  Second second{mesh, 11, 5};
  const auto hidden = first.forward(x);
  const auto y = second.forward(hidden);
}

int main() {}
