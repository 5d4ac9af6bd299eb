// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include "cubist/machine/machine_json.hpp"  // deprecated: include that instead
