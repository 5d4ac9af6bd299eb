// SPDX-License-Identifier: BSD-3-Clause
// Compares CudaEngine with HostEngine on one scalar, CUBIST_CUDA_TEST_SCALAR.

#include <complex>

#include "cubist/core/scalar.hpp"

#include "engine_comparison.hpp"

template void cubist::test::compare_engines<CUBIST_CUDA_TEST_SCALAR>(Comparison&);
