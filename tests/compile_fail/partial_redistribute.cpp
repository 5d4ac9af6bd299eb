// expect: layout with Partial.*complete it first
// SPDX-License-Identifier: BSD-3-Clause
// Redistributing the parts would not sum them.
#include "cubist/backend/threads.hpp"
#include "cubist/matrix/redistribute.hpp"

using Mesh = cubist::AxisMesh<cubist::Axes<cubist::Row, cubist::Col>, cubist::Threads>;
using Target = cubist::Layout<cubist::Rows<>, cubist::Cols<cubist::Row>>;
#ifdef CUBIST_CONTROL
using L = cubist::Layout<cubist::Rows<cubist::Row>, cubist::Cols<>>;
#else
using L = cubist::Layout<cubist::Rows<cubist::Row>, cubist::Cols<>, cubist::Partial<cubist::Col>>;
#endif

auto move(const cubist::DistMatrix<double, L, Mesh>& m, const Mesh& mesh)
{
  return cubist::redistribute<Target>(m, mesh);
}
