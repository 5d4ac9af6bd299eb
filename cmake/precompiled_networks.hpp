// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// cubist's own headers for programs with networks, precompiled once. CubistPrecompiled.cmake adds
// the instances that several programs share.

#include <cubist/backend/simulated.hpp>
#include <cubist/cubist.hpp>
#include <cubist/nn/transformer/generate.hpp>
#include <cubist/nn/transformer/transformer.hpp>
#include <cubist/nn/transformer/weights.hpp>
#include <cubist/training/trainer.hpp>
