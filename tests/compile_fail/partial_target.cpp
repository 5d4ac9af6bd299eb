// expect: these parts have a layout whose sum cannot have this other layout
// SPDX-License-Identifier: BSD-3-Clause
// If the pending axis cuts outside another axis, the blocks of a sum are not where its parts are.
#include "cubist/backend/threads.hpp"
#include "cubist/matrix/sum_partial.hpp"

using Mesh = cubist::AxisMesh<cubist::Axes<cubist::Row, cubist::Col>, cubist::Threads>;
using Parts =
    cubist::Layout<cubist::Rows<cubist::Row>, cubist::Cols<>, cubist::Partial<cubist::Col>>;
#ifdef CUBIST_CONTROL
using L = cubist::Layout<cubist::Rows<cubist::Row, cubist::Col>, cubist::Cols<>>;
#else
using L = cubist::Layout<cubist::Rows<cubist::Col, cubist::Row>, cubist::Cols<>>;
#endif

void finish(const cubist::DistMatrix<double, Parts, Mesh>& parts,
            cubist::DistMatrix<double, L, Mesh>& sum)
{
  sum = parts;
}
