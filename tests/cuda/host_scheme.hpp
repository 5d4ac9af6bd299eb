// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The results of one rank on the host, with which a scheme's on GPUs are compared. nvcc does not
// compile the code that computes them.

#include "scheme_run.hpp"

namespace cubist::test
{

/// The results for Grid3D and, in full tests, Summa25D.
template <class S>
[[nodiscard]] SchemeResults results_on_host();

}  // namespace cubist::test
