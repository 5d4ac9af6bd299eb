// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include "cubist/machine/rate_table.hpp"  // deprecated: include that instead
