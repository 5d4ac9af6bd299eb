// expect: constraint|SchemeType
// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/matmul/dist_matmul.hpp"
#include "cubist/scheme/pipeline.hpp"
#include "cubist/scheme/summa2d.hpp"

#include "declared_backend.hpp"

#ifdef CUBIST_CONTROL
using Scheme = cubist::Summa2D;
#else
using Scheme = cubist::Pipeline<cubist::Summa2D>;
#endif

using Product = cubist::DistMatMul<Scheme, Declared, double>;
