// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include "cubist/testing/counting.hpp"  // deprecated: include that instead
