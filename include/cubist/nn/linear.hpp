// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include "cubist/nn/layers/linear.hpp"  // deprecated: include that instead
