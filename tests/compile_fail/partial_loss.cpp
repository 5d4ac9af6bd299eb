// expect: layout with Partial.*complete it first
// SPDX-License-Identifier: BSD-3-Clause
// The loss of one part of a sum is not a part of the loss.
#include <span>

#include "cubist/backend/threads.hpp"
#include "cubist/nn/losses/loss.hpp"

using Mesh = cubist::AxisMesh<cubist::Axes<cubist::Row, cubist::Col>, cubist::Threads>;
#ifdef CUBIST_CONTROL
using L = cubist::Layout<cubist::Rows<cubist::Row>, cubist::Cols<>>;
#else
using L = cubist::Layout<cubist::Rows<cubist::Row>, cubist::Cols<>, cubist::Partial<cubist::Col>>;
#endif

double loss(const cubist::DistMatrix<float, L, Mesh>& y, std::span<const int> labels,
            cubist::DistMatrix<float, L, Mesh>& dy)
{
  return cubist::softmax_cross_entropy(y, labels, dy);
}
