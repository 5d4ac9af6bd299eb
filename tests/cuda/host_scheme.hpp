// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The results of one rank on the host that a scheme's on GPUs are compared with; nvcc does not
// compile how they are computed.

#include "scheme_run.hpp"

namespace cubist::test
{

/// For Grid3D and, in full tests, Summa25D.
template <class S>
[[nodiscard]] SchemeResults results_on_host();

}  // namespace cubist::test
