// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The options of a linear layer (nn/layers/linear.hpp).

#include <cstddef>
#include <cstdint>

#include "cubist/matmul/dist_matmul.hpp"
#include "cubist/nn/functions/initial_values.hpp"

namespace cubist::CUBIST_ABI
{

/// The options of a linear layer.
struct LinearOptions
{
  bool bias = true;
  std::uint64_t seed = 0;
  /// The layer's number, below 2^16: layers with one seed have different random numbers.
  std::size_t index = 0;
  Gathered gathered = Gathered::kept;
  Method method = Method::automatic;
  Initial initial_weights = Uniform{};  ///< the initial values of W
  Initial initial_bias = Uniform{};     ///< the initial values of the bias
  /// The numbers of which the layer's inputs and outputs are padded to multiples; 0 stands for the
  /// mesh's quantum.
  std::size_t in_quantum = 0;
  /// Columns of Y are padded to a multiple of this; 0 for the mesh's quantum.
  std::size_t out_quantum = 0;
  /// Whether the layer has gradients. A layer without gradients has no memory for them and no
  /// backward.
  bool gradients = true;
};

namespace detail
{

/// The options with the mesh's quantum where they leave it to the mesh.
[[nodiscard]] inline LinearOptions with_quanta(LinearOptions options, std::size_t mesh_quantum)
{
  if (options.in_quantum == 0) options.in_quantum = mesh_quantum;
  if (options.out_quantum == 0) options.out_quantum = mesh_quantum;
  return options;
}

}  // namespace detail

}  // namespace cubist::CUBIST_ABI
