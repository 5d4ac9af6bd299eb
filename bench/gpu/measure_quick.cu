// SPDX-License-Identifier: BSD-3-Clause
// All measurements in one source, so that their headers are compiled once.

#include "gpu/measure_elementwise.cu"
#include "gpu/measure_machine.cu"
#include "gpu/measure_matmul.cu"
#include "gpu/measure_mlp.cu"
#include "gpu/measure_step.cu"
#include "gpu/measure_transformer.cu"
