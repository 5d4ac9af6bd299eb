// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include "cubist/nn/layers/dropout.hpp"  // deprecated: include that instead
