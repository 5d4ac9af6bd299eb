// expect: not an xtensor expression.*not a layout
// SPDX-License-Identifier: BSD-3-Clause
// scatter takes a matrix with rows and columns, and a layout of a scheme.
#include <vector>

#include "cubist/backend/threads.hpp"
#include "cubist/matrix/global.hpp"
#include "cubist/scheme/summa25d.hpp"

using namespace cubist;

#ifdef CUBIST_CONTROL
using Global = xt::xtensor<float, 2>;
using Cut = Summa25D::Input;
#else
using Global = std::vector<float>;
using Cut = Summa25D;
#endif

void cut(const Mesh<Summa25D, Threads>& mesh, const Global& global, const xt::xtensor<float, 2>& x)
{
  static_cast<void>(scatter<Summa25D::Input>(mesh, global));
  static_cast<void>(scatter<Cut>(mesh, x));
}
