// expect: AxisZ, [^,]*AxisY>.*AxisZ, [^,]*AxisX>.*layout Got.*S::Next.*redistribute<Wanted>
// SPDX-License-Identifier: BSD-3-Clause
// The second layer of a cube takes the first one's output, not its input.
#include "cubist/matmul/dist_matmul.hpp"
#include "cubist/scheme/cube3d.hpp"

#include "declared_backend.hpp"

using First = cubist::DistMatMul<cubist::Cube3D, Declared, double>;
using Second = cubist::DistMatMul<cubist::Cube3D::Next, Declared, double>;

void multiply(Second& second, First::Input& x1, First::Output& y1, Second::Weight& w,
              Second::Output& y2)
{
#ifdef CUBIST_CONTROL
  second.forward(y1, w, y2);
  (void)x1;
#else
  second.forward(x1, w, y2);
  (void)y1;
#endif
}
