// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include "cubist/core/random_stream.hpp"           // deprecated: include that instead
#include "cubist/nn/functions/initial_values.hpp"  // deprecated: include that instead
#include "cubist/nn/functions/training_step.hpp"   // deprecated: include that instead
