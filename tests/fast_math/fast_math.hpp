// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The two parts of the test; each prints what fails.

namespace fast_math_functions
{
/// @return the number of failures
int check();
}  // namespace fast_math_functions

namespace fast_math_training
{
/// @return the number of failures
int check();
}  // namespace fast_math_training
