// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// cubist's own headers for programs with networks, and the instances that several programs have:
// with these precompiled, they are compiled once.

#define CUBIST_COMPILED_INSTANCES  // for compiled.hpp, which cubist.hpp includes

#include <cubist/backend/simulated.hpp>
#include <cubist/cubist.hpp>
#include <cubist/nn/transformer/generate.hpp>
#include <cubist/nn/transformer/transformer.hpp>
#include <cubist/nn/transformer/weights.hpp>
#include <cubist/training/trainer.hpp>

namespace cubist::CUBIST_ABI
{

// Macros without semicolons.
// clang-format off
CUBIST_LAUNCH_INSTANCE_OF_Threads(template)
CUBIST_BACKEND_INSTANCES(template, Threads)
CUBIST_MESH_INSTANCES(template, Summa2D, Threads)
CUBIST_INSTANCES(template, Summa2D, Threads)
CUBIST_MESH_INSTANCES(template, Summa25D, Threads)
CUBIST_INSTANCES(template, Summa25D, Threads)
// clang-format on

}  // namespace cubist::CUBIST_ABI
