// SPDX-License-Identifier: BSD-3-Clause
#include <cmath>

#include "references.hpp"

namespace reference
{

Wide exp(Wide x) { return std::exp(x); }
Wide expm1(Wide x) { return std::expm1(x); }
Wide log(Wide x) { return std::log(x); }
Wide square_root(Wide x) { return std::sqrt(x); }
Wide normal_tail(Wide x) { return std::erfc(std::abs(x) / std::sqrt(2.0L)) / 2; }
Wide logistic(Wide x) { return 1 / (1 + std::exp(-x)); }
Wide slope_of_logistic(Wide x) { return logistic(x) * logistic(-x); }
Wide hyperbolic_tangent(Wide x) { return std::tanh(x); }
Wide slope_of_tangent(Wide x) { return 1 / (std::cosh(x) * std::cosh(x)); }
Wide swish(Wide x) { return x * logistic(x); }
Wide gaussian_unit(Wide x) { return x * std::erfc(-x / std::sqrt(2.0L)) / 2; }
Wide gaussian_unit_by_tanh(Wide x)
{
  const Wide pi = std::acos(-1.0L);
  return x * (1 + std::tanh(std::sqrt(2 / pi) * (x + 0.044715L * x * x * x))) / 2;
}

}  // namespace reference
