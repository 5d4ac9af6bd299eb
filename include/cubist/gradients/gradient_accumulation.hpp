// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Gradient accumulation: a step has n micro-batches, whose gradients are added up on each rank, and
// summed over replicas only once, with the last micro-batch.
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
// rows. The gradients are unspecified until the n-th backward pass is complete. Each parameter
// needs a second buffer of its gradient's size. A table that embedding and logits share is summed
// in every micro-batch whose tokens are few (gradients/table_gradient.hpp).
//
// The micro-batches of a pipeline use the same reducer (nn/pipeline/pipeline_stack.hpp).
//
// Elements that one rank sends: in a step of n backward passes, what the sums over replicas send in
// one pass.

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "cubist/core/block.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/host_device.hpp"
#include "cubist/core/instances.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/functions.hpp"
#include "cubist/gradients/gradient_reducer.hpp"
#include "cubist/gradients/parameter.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

/// x = (x + y) scale
template <class A>
struct AddAndScale
{
  A scale;

  template <class T>
  CUBIST_HOST_DEVICE void operator()(T& x, const T& y) const
  {
    x = static_cast<T>((static_cast<A>(x) + static_cast<A>(y)) * scale);
  }
};

/// Adds up the gradients of `count` backward passes, and passes on their mean with the last pass.
/// The i-th gradient of one pass is added to the i-th of the others.
template <RealScalar T, class M>
class GradientAccumulator final : public GradientReducer<T, M>
{
 public:
  using typename GradientReducer<T, M>::Communicator;

  /// @param next  takes the means; it outlives the accumulator
  /// @throws ArgumentError for 0 micro-batches
  GradientAccumulator(const M& mesh, std::size_t count, GradientReducer<T, M>& next)
      : mesh_{mesh},
        count_{count},
        next_{next}
  {
    require<ArgumentError>(
        count > 0, "got steps of 0 micro-batches, so they have no gradients; use at least 1");
  }

  void begin() override
  {
    number_ = 0;
    next_.begin();
  }

  void reduce(MatrixView<T> gradient, Communicator* replicas) override
  {
    if (count_ == 1) return next_.reduce(gradient, replicas);
    if (number_ == sums_.size()) sums_.emplace_back();
    Sum& sum = sums_[number_++];
    const auto& engine = mesh_.engine();
    gradient = sum.extend(engine, gradient, backwards_ == 0);
    replicas = sum.join(engine, gradient, replicas, backwards_ == 0);
    if (backwards_ + 1 < count_) return sum.add(engine, gradient, backwards_ == 0);
    const auto scale = static_cast<Accumulator<T>>(1.0 / static_cast<double>(count_));
    engine.for_each(AddAndScale<Accumulator<T>>{scale}, gradient, MatrixView<const T>{sum.view()});
    next_.reduce(gradient, replicas);
  }

  void finish() override
  {
    if (++backwards_ < count_) return;
    backwards_ = 0;
    next_.finish();
  }

  void restart() override { backwards_ = 0; }
  /// The number of backward passes in a step.
  [[nodiscard]] std::size_t count() const { return count_; }

 private:
  using Engine = typename M::Engine;
  using Buffer = typename Engine::template Buffer<T>;

  /// The sum of a parameter's gradients over the backward passes of a step.
  class Sum
  {
   public:
    /// Returns the gradient, followed by the rows that only an earlier micro-batch had. The
    /// gradient of a table of positions has as many rows as the longest sequence.
    [[nodiscard]] MatrixView<T> extend(const Engine& engine, MatrixView<T> gradient, bool is_first)
    {
      require<ArgumentError>(
          is_first || gradient.data() == data_,
          "got the gradients of a micro-batch in a different order from the micro-batch before, so "
          "they would be added to the wrong gradients; compute the gradients of one network in "
          "every backward pass of a step");
      data_ = gradient.data();
      if (!is_first && gradient.rows() <= shape_.rows) return {gradient.data(), shape_};
      Buffer longer(buffer_.size() < gradient.size() || !is_first ? gradient.size() : 0);
      if (!is_first) engine.copy(MatrixView<const T>{view()}, MatrixView<T>{longer.data(), shape_});
      if (longer.size() > 0) buffer_ = std::move(longer);
      shape_ = gradient.shape();
      return gradient;
    }
    /// Returns the replicas that have terms of the sum. The gradients of some micro-batches may
    /// be terms, as those of an embedding with many tokens are, and those of others complete. Then
    /// a complete gradient counts as a term on the first replica, and as 0 on the others.
    [[nodiscard]] Communicator* join(const Engine& engine, MatrixView<T> gradient,
                                     Communicator* replicas, bool is_first)
    {
      if (is_first || replicas == replicas_) return replicas_ = replicas;
      if (replicas_ == nullptr)
      {
        replicas_ = replicas;
        if (replicas_->rank() != 0) engine.fill(view(), T{});
      }
      else if (replicas_->rank() != 0)
        engine.fill(gradient, T{});
      return replicas_;
    }
    [[nodiscard]] MatrixView<T> view() { return {buffer_.data(), shape_}; }
    void add(const Engine& engine, MatrixView<const T> gradient, bool is_first)
    {
      if (is_first)
        engine.copy(gradient, view());
      else
        engine.for_each(Add{}, view(), gradient);
    }

   private:
    const T* data_ = nullptr;
    Communicator* replicas_ = nullptr;  // null if every replica has the complete sum
    Shape shape_;
    Buffer buffer_ = Buffer(0);
  };

  M mesh_;
  std::size_t count_;
  GradientReducer<T, M>& next_;
  std::size_t backwards_ = 0;  // the backward passes of this step that are complete
  std::size_t number_ = 0;     // the number of the next gradient in this backward pass
  std::vector<Sum> sums_;
};

/// Makes a GradientAccumulator. A program sees only its base class.
/// @param next  takes the means; it outlives the accumulator
/// @throws ArgumentError for 0 micro-batches
template <RealScalar T, class M>
std::unique_ptr<GradientReducer<T, M>> make_accumulator(const M& mesh, std::size_t count,
                                                        GradientReducer<T, M>& next)
{
  return std::make_unique<GradientAccumulator<T, M>>(mesh, count, next);
}

}  // namespace detail

/// RAII: while this object exists, the backward passes of a network accumulate their gradients.
/// Every rank of the mesh makes one.
template <RealScalar T, class M>
class GradientAccumulation
{
 public:
  /// @param parameters the parameters of a network that outlives this object
  /// @param micro_batches the number of micro-batches in a step
  /// @throws ArgumentError for 0 micro-batches, and for parameters that belong to no network
  GradientAccumulation(const Parameters<T, M>& parameters, std::size_t micro_batches)
      : gradients_{of_network(parameters)},
        sums_{detail::make_accumulator(parameters.front().value.mesh, micro_batches,
                                       gradients_->reducer())},
        scope_{gradients_, *sums_}
  {
  }

  /// Forgets the micro-batches since the last step. Call it after an error, or at the end of the
  /// data.
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
  std::unique_ptr<GradientReducer<T, M>> sums_;
  ReducerScope<T, M> scope_;
};

/// The instances of the compiled library (cubist/core/instances.hpp).
#define CUBIST_ACCUMULATOR_INSTANCES(prefix, M, T)                                                 \
  CUBIST_INSTANCE(prefix, detail::make_accumulator<T, M>)
CUBIST_FOR_TRAINED_MESHES(CUBIST_ACCUMULATOR_INSTANCES)

}  // namespace cubist::CUBIST_ABI
