// expect: layout with Partial.*complete it first
// SPDX-License-Identifier: BSD-3-Clause
// A global matrix cannot be scattered as parts of a sum.
#include "cubist/backend/threads.hpp"
#include "cubist/matrix/global.hpp"

using Mesh = cubist::AxisMesh<cubist::Axes<cubist::Row, cubist::Col>, cubist::Threads>;
#ifdef CUBIST_CONTROL
using L = cubist::Layout<cubist::Rows<cubist::Row>, cubist::Cols<>>;
#else
using L = cubist::Layout<cubist::Rows<cubist::Row>, cubist::Cols<>, cubist::Partial<cubist::Col>>;
#endif

void distribute(const Mesh& mesh, const xt::xtensor<double, 2>& x)
{
  (void)cubist::scatter<L>(mesh, x);
}
