// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Functions of long double by their definitions. references.cpp is compiled without flags that
// change arithmetic.

namespace reference
{

using Wide = long double;

Wide exp(Wide x);
Wide expm1(Wide x);
Wide log(Wide x);
Wide square_root(Wide x);
/// The probability that a standard normal variable exceeds |x|.
Wide normal_tail(Wide x);
Wide logistic(Wide x);
Wide slope_of_logistic(Wide x);
Wide hyperbolic_tangent(Wide x);
Wide slope_of_tangent(Wide x);
Wide swish(Wide x);
Wide gaussian_unit(Wide x);
Wide gaussian_unit_by_tanh(Wide x);

}  // namespace reference
