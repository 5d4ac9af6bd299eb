// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include "cubist/nn/layers/dense.hpp"  // deprecated: include that instead
