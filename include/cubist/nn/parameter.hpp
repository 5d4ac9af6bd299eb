// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A parameter of a network, for optimizers and for users: `gather` collects its value or gradient
// on rank 0, `scatter` sets it from there. A weight is (in, out), in PyTorch (out, in).

#include <string>
#include <vector>

#include "cubist/dist/dist_matrix.hpp"

namespace cubist::CUBIST_ABI
{

/// References, valid as long as the network.
template <class T, class M>
struct Parameter
{
  std::string name;         // "layers.0.weight"
  DistView<T, M> value;     ///< refers to the value
  DistView<T, M> gradient;  ///< refers to the gradient
};

/// What an optimizer updates.
template <class T, class M>
using Parameters = std::vector<Parameter<T, M>>;

}  // namespace cubist::CUBIST_ABI
