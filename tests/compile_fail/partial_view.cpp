// expect: layout with Partial.*complete it first
// SPDX-License-Identifier: BSD-3-Clause
// A view has no layout, so it cannot say that a sum is pending.
#include "cubist/matrix/dist_matrix.hpp"

#include "declared_backend.hpp"

using Mesh = cubist::AxisMesh<cubist::Axes<cubist::Row, cubist::Col>, Declared>;
#ifdef CUBIST_CONTROL
using L = cubist::Layout<cubist::Rows<cubist::Row>, cubist::Cols<>>;
#else
using L = cubist::Layout<cubist::Rows<cubist::Row>, cubist::Cols<>, cubist::Partial<cubist::Col>>;
#endif

auto view(cubist::DistMatrix<double, L, Mesh>& m) { return m.view(); }
