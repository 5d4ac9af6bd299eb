// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include "cubist/nn/optimizers/optimizer.hpp"  // deprecated: include that instead
