// SPDX-License-Identifier: BSD-3-Clause
// All tests that nvcc compiles in one source, so that their headers are compiled once.

#include "attention.cu"
#include "backend.cu"
#include "engine.cu"
#include "saves.cu"
#include "steps.cu"
#include "transformers.cu"
