// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include "cubist/nn/networks/network_matrix.hpp"  // deprecated: include that instead
