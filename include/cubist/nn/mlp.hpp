// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include "cubist/nn/networks/mlp.hpp"  // deprecated: include that instead
