// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Gradient accumulation: a step of n micro-batches, whose gradients are added up on each rank and
// summed over replicas once, with the last.
//
//   GradientAccumulation<double, Mesh> accumulation{mesh, 4};
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
// The gradient is the mean of those of the micro-batches: that of one large batch whose loss is the
// mean over rows, for micro-batches of equally many rows. After every backward but the n-th the
// gradients are parts, and unspecified. Each parameter takes a second buffer of its gradient's
// size. A table that embedding and logits share is summed in every micro-batch.
//
// Words: those of one backward's sums over replicas a step, for n backwards.

#include <cstddef>
#include <map>
#include <utility>

#include "cubist/core/block.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/host_device.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/dist/replica_sum.hpp"
#include "cubist/engine/functions.hpp"

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

/// Adds up the gradients of `count` backwards, and passes on their mean with the last.
template <RealScalar T, class M>
class GradientAccumulator : public GradientSink<T, typename M::Communicator>
{
 public:
  using Communicator = typename M::Communicator;

  /// @throws ArgumentError for no micro-batches
  GradientAccumulator(const M& mesh, std::size_t count) : mesh_{mesh}, count_{count}
  {
    require<ArgumentError>(count > 0, "got steps of 0 micro-batches, which have no gradients; use "
                                      "at least 1");
  }

  ReplicaSum<Communicator> take(MatrixView<T> gradient, Communicator* replicas) override
  {
    if (count_ > 1)
    {
      Sum& sum = sums_[gradient.data()];
      gradient = sum.extend(mesh_.engine(), gradient);
      if (sum.backwards + 1 < count_)
      {
        sum.add(mesh_.engine(), gradient);
        return {};
      }
      const auto scale = static_cast<Accumulator<T>>(1.0 / static_cast<double>(count_));
      mesh_.engine().for_each(AddAndScale<Accumulator<T>>{scale}, gradient,
                              MatrixView<const T>{sum.view()});
      sum.backwards = 0;
    }
    return reduce(gradient, replicas);
  }

  /// Forgets the micro-batches since the last step.
  void restart()
  {
    for (auto& entry : sums_) entry.second.backwards = 0;
  }

 protected:
  /// Starts the sum of a step's gradient.
  virtual ReplicaSum<Communicator> reduce(MatrixView<T> gradient, Communicator* replicas)
  {
    if (!replicas) return {};
    return buckets_of<T>(mesh_).sum(mesh_.engine(), gradient, *replicas);
  }

  [[nodiscard]] const M& mesh() const { return mesh_; }

 private:
  using Buffer = typename M::Engine::template Buffer<T>;

  /// The sum of a parameter's gradients over the backwards of a step.
  class Sum
  {
   public:
    std::size_t backwards = 0;

    /// The gradient with the rows behind it that an earlier micro-batch had: that of a table of
    /// positions has as many rows as the longest sequence.
    [[nodiscard]] MatrixView<T> extend(const typename M::Engine& engine, MatrixView<T> gradient)
    {
      if (backwards > 0 && gradient.rows() <= shape_.rows) return {gradient.data(), shape_};
      Buffer longer(buffer_.size() < gradient.size() || backwards > 0 ? gradient.size() : 0);
      if (backwards > 0)
        engine.copy(MatrixView<const T>{view()}, MatrixView<T>{longer.data(), shape_});
      if (longer.size() > 0) buffer_ = std::move(longer);
      shape_ = gradient.shape();
      return gradient;
    }
    [[nodiscard]] MatrixView<T> view() { return {buffer_.data(), shape_}; }
    void add(const typename M::Engine& engine, MatrixView<const T> gradient)
    {
      if (backwards++ == 0)
        engine.copy(gradient, view());
      else
        engine.for_each(Add{}, view(), gradient);
    }

   private:
    Shape shape_;
    Buffer buffer_ = Buffer(0);
  };

  M mesh_;
  std::size_t count_;
  std::map<const T*, Sum> sums_;
};

}  // namespace detail

/// While it exists, backwards on the mesh accumulate. Every rank of the mesh makes one.
template <RealScalar T, class M>
class GradientAccumulation
{
 public:
  /// @param micro_batches of a step
  /// @throws ArgumentError for 0
  GradientAccumulation(const M& mesh, std::size_t micro_batches)
      : sums_{mesh, micro_batches}, scope_{mesh, &sums_}
  {
  }

  /// Forgets the micro-batches since the last step: after an error, or at the end of the data.
  void restart() { sums_.restart(); }

 private:
  detail::GradientAccumulator<T, M> sums_;
  GradientSinkScope<T, M> scope_;
};

}  // namespace cubist::CUBIST_ABI
