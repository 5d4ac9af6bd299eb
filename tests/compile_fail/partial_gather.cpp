// expect: layout with Partial.*complete it first
// SPDX-License-Identifier: BSD-3-Clause
// Parts of a sum cannot be gathered as a matrix.
#include "cubist/backend/threads.hpp"
#include "cubist/matrix/global.hpp"
#include "cubist/matrix/sum_partial.hpp"

using Mesh = cubist::AxisMesh<cubist::Axes<cubist::Row, cubist::Col>, cubist::Threads>;
using Sum = cubist::Layout<cubist::Rows<cubist::Row>, cubist::Cols<>>;
using Parts =
    cubist::Layout<cubist::Rows<cubist::Row>, cubist::Cols<>, cubist::Partial<cubist::Col>>;

void print(const cubist::DistMatrix<double, Parts, Mesh>& parts)
{
#ifdef CUBIST_CONTROL
  cubist::DistMatrix<double, Sum, Mesh> sum{parts.mesh(), parts.shape()};
  sum = parts;
  (void)cubist::gather(sum);
#else
  (void)cubist::gather(parts);
#endif
}
