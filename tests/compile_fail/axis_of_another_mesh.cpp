// expect: constraint.*has<(Axis|cubist::Depth)>
// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/scheme/summa2d.hpp"

#include "declared_backend.hpp"

#ifdef CUBIST_CONTROL
using Axis = cubist::Row;
#else
using Axis = cubist::Depth;
#endif

int extent(const cubist::Mesh<cubist::Summa2D, Declared>& mesh) { return mesh.extent<Axis>(); }
