// expect: be the innermost of its tuple
// SPDX-License-Identifier: BSD-3-Clause
// Blocks that are gathered along an axis which is not the innermost land in the wrong order.
#include "cubist/algorithm/local_product.hpp"

using namespace cubist;

#ifdef CUBIST_CONTROL
using Input = Layout<Rows<AxisZ, AxisY>, Cols<AxisX>>;
#else
using Input = Layout<Rows<AxisY, AxisZ>, Cols<AxisX>>;
#endif
using Local = LocalProduct<Input, Layout<Rows<AxisX, AxisZ>, Cols<AxisY>>,
                           Layout<Rows<AxisZ, AxisX>, Cols<AxisY>>>;

constexpr auto cut = Local::Input::cut;
