// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include "cubist/testing/faulty.hpp"  // deprecated: include that instead
