// expect: constrain.*Scalar
// SPDX-License-Identifier: BSD-3-Clause
// There are six scalars and no others.
#include "cubist/matmul/dist_matmul.hpp"
#include "cubist/scheme/summa2d.hpp"

#include "declared_backend.hpp"

#ifdef CUBIST_CONTROL
using T = double;
#else
using T = long double;
#endif

cubist::DistMatMul<cubist::Summa2D, Declared, T>* plan = nullptr;
