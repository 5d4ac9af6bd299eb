// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include "cubist/nn/losses/next_token_loss.hpp"  // deprecated: include that instead
