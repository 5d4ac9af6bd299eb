// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include "cubist/nn/losses/loss.hpp"  // deprecated: include that instead
