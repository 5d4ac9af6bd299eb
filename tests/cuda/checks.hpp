// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The tests of cubist_cuda_tests (main.cpp), which run on GPUs; each has its own source.

#include "comparison.hpp"

namespace cubist::test
{

/// Runs on one GPU.
void check_engine(Comparison& found);
void check_products(Comparison& found);
void check_attention(Comparison& found);

/// Runs on 1, 2, 4, … GPUs of this machine; under mpiexec on the processes, which may share GPUs.
void check_backend(Comparison& found);
void check_steps(Comparison& found);
void check_transformers(Comparison& found);
/// Runs on all GPUs, or on all processes.
void check_overlap(Comparison& found);
void check_saves(Comparison& found);

}  // namespace cubist::test
