// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// An optimizer whose state is split among the replicas of each parameter (ZeRO-1): along a data
// axis, the depth of Summa25D, or whatever axes replicate it.
//
//   Sharded<AdamW<double, Mesh>> optimizer{mlp.parameters(), {.learning_rate = 1e-3}};
//   ...
//   mlp.backward(dy);                   // starts the sums of this rank's parts of the gradients
//   optimizer.step(mlp.parameters());   // updates this rank's parts and gathers the values
//
// The values are bit-identical to those without sharding, because sums are formed in the same order
// (comm/reduction.hpp), except on NCCL, which chooses its own order. Checkpoints have the same
// names and matrices, so a run may continue with a different sharding, or without any.
//
// The constructor's last argument gives each step several micro-batches, as GradientAccumulation
// does.
//
// Elements that one rank sends: what sharded_parameters.hpp sends.

#include <cstddef>
#include <memory>
#include <string>

#include "cubist/core/error.hpp"
#include "cubist/gradients/parameter.hpp"
#include "cubist/matrix/state.hpp"
#include "cubist/nn/optimizers/optimizer.hpp"
#include "cubist/training/sharded_parameters.hpp"

namespace cubist::CUBIST_ABI
{

/// @tparam O Sgd, Adam or AdamW, of the network's scalar and mesh
template <class O>
class Sharded
{
 public:
  using Value = typename O::Value;
  using Mesh = typename O::Mesh;
  using Options = typename O::Options;

  /// Takes the gradients of all backward passes of the network while it exists. Every rank of the
  /// mesh constructs one.
  /// @pre `parameters` belong to a network that outlives the optimizer
  /// @throws ArgumentError if there are no parameters, and for options out of range
  explicit Sharded(const Parameters<Value, Mesh>& parameters, const Options& options = {},
                   std::size_t micro_batches = 1)
      : sharded_{detail::make_sharded_gradients(parameters, micro_batches)},
        optimizer_{sharded_->parts(), options},
        whole_{parameters},
        micro_batches_{micro_batches}
  {
  }

  /// Updates the parameters from their gradients, multiplied by `factor`. Every rank of the mesh
  /// calls it.
  /// @throws ArgumentError for options out of range
  void step(double factor = 1)
  {
    optimizer_.step(parameters(), factor);
    sharded_->gather();
  }

  /// Updates the parameters; other optimizers have the same call.
  /// @param parameters those of the constructor
  /// @throws ShapeError unless they are the parameters of the constructor
  void step(const Parameters<Value, Mesh>& parameters, double factor = 1)
  {
    bool same = parameters.size() == whole_.size();
    for (std::size_t i = 0; same && i < whole_.size(); ++i)
      same = parameters[i].value.padded.data() == whole_[i].value.padded.data() &&
             parameters[i].value.shape == whole_[i].value.shape;
    require<ShapeError>(same, "got ", parameters.size(),
                        " parameters that are not those of the optimizer, but it updates only the "
                        "parameters that it was made with; make a new optimizer for them");
    step(factor);
  }

  /// This rank's parts of the parameters and of their gradients, for functions such as
  /// `gradient_norm`.
  [[nodiscard]] const Parameters<Value, Mesh>& parameters()
  {
    sharded_->copy_parts();
    return sharded_->parts();
  }
  /// The reducer that takes the gradients, for the passes of a network that is a layer
  /// (nn/layer.hpp).
  [[nodiscard]] GradientReducer<Value, Mesh>& reducer() { return sharded_->reducer(); }

  [[nodiscard]] Options& options() { return optimizer_.options(); }
  /// Sets the learning rate of the next steps, and multiplies those of groups by rate / base.
  void set_learning_rate(double rate, double base) { optimizer_.set_learning_rate(rate, base); }
  /// Forgets the micro-batches since the last step. Call it after an error, or at the end of the
  /// data.
  void restart() { reducer().restart(); }
  /// The number of micro-batches in a step.
  [[nodiscard]] std::size_t micro_batches() const { return micro_batches_; }

  /// Appends the state that the optimizer would have without sharding, with the same names.
  void append_state(State<Value, Mesh>& state, const std::string& prefix = "")
  {
    optimizer_.append_state(state, prefix);
  }

 private:
  std::unique_ptr<detail::AnyShardedGradients<Value, Mesh>> sharded_;
  O optimizer_;
  Parameters<Value, Mesh> whole_;
  std::size_t micro_batches_;
};

}  // namespace cubist::CUBIST_ABI
