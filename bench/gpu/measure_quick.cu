// SPDX-License-Identifier: BSD-3-Clause
// All measurements in one source, so that their headers are compiled once.

#include "measure_elementwise.cu"
#include "measure_machine.cu"
#include "measure_matmul.cu"
#include "measure_mlp.cu"
#include "measure_step.cu"
#include "measure_transformer.cu"
