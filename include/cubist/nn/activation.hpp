// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include "cubist/nn/functions/activation.hpp"  // deprecated: include that instead
