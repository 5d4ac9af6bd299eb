// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Gradient accumulation: a step has n micro-batches, whose gradients are added up on each rank, and
// summed over replicas only once, with the last one.
//
//   GradientAccumulation accumulation{mlp.parameters(), 4};
//   for (each batch)
//   {
//     for (each of its 4 micro-batches)
//     {
//       ... mlp.forward(x) ...
//       mlp.backward(dy);
//     }
//     optimizer.step(parameters);
//   }
//
// The gradient is the mean of the micro-batches' gradients. If all of them have the same number of
// rows with a label, it equals the gradient of one large batch whose loss is the mean over these
// rows. The gradients are unspecified until the n-th backward. Each parameter takes a second buffer
// of its gradient's size. A table that embedding and logits share is summed in every micro-batch.
//
// Words: in a step of n backwards, the sums over replicas of one.

#include <cstddef>
#include <memory>

#include "cubist/core/error.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/nn/gradient_accumulator.hpp"
#include "cubist/nn/parameter.hpp"

namespace cubist::CUBIST_ABI
{

/// While this object exists, the backwards of a network accumulate. Every rank of the mesh makes
/// one.
template <RealScalar T, class M>
class GradientAccumulation
{
 public:
  /// @param parameters of a network, which outlives this object
  /// @param micro_batches of a step
  /// @throws ArgumentError for 0, and for parameters that are not of one network
  GradientAccumulation(const Parameters<T, M>& parameters, std::size_t micro_batches)
      : gradients_{of_network(parameters)}, sums_{detail::make_accumulator(
                                                parameters.front().value.mesh, micro_batches,
                                                gradients_->reducer())},
        scope_{gradients_, *sums_}
  {
  }

  /// Forgets the micro-batches since the last step: after an error, or at the end of the data.
  void restart() { sums_->restart(); }

 private:
  static std::shared_ptr<Gradients<T, M>> of_network(const Parameters<T, M>& parameters)
  {
    require<ArgumentError>(
        !parameters.empty() && parameters.front().gradients,
        "got parameters that belong to no network, so their gradients cannot be added up; give "
        "those of an MLP or a Transformer, or of parameters_of(layer, gradients)");
    return parameters.front().gradients;
  }

  std::shared_ptr<Gradients<T, M>> gradients_;
  std::unique_ptr<detail::AnyGradientAccumulator<T, M>> sums_;
  ReducerScope<T, M> scope_;
};

}  // namespace cubist::CUBIST_ABI
