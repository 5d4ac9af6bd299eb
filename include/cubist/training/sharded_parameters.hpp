// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The parameters of a network, each of whose replicas keeps a part: some rows of its block or, for
// a bias, some columns. An optimizer of these parts has 1/P of the state, for P replicas.
//
//   1. backward: as soon as a rank's part of a gradient's sum is computed, a reduce_scatter over
//      its replicas starts, for small gradients in buckets (gradients/gradient_buckets.hpp). It
//      overlaps with the backward passes of earlier layers.
//   2. the optimizer updates its part.
//   3. an all_gather completes the values on every replica.
//
// A gradient that is already complete on every replica, such as one of a direct product, or of an
// embedding with few tokens, is not sent: each replica copies its part. If a gradient is summed
// along axes that are not its replicas', the whole sum is formed first, and then copied in the same
// way.
//
// A frozen parameter stays whole, and none of it is sent. It is in the list of parts, so that
// groups of an optimizer may name it.
//
// Elements that one rank sends: for each parameter, (P-1) p in step 1 and (P-1) p in step 3. Here p
// is the number of elements in ceil(n / P) of the n rows of its block, or columns of a bias. If the
// gradient is already complete, only those of step 3.
// Source: Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter
// Models", arXiv 1910.02054, section 5.1 (ZeRO-1).

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "cubist/core/block.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/instances.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/gradients/gradient_accumulation.hpp"
#include "cubist/gradients/gradient_buckets.hpp"
#include "cubist/gradients/gradient_reducer.hpp"
#include "cubist/gradients/parameter.hpp"
#include "cubist/matrix/dist_matrix.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// A parameter, its replicas, and the part that this rank keeps.
template <RealScalar T, class M>
class ShardedParameter
{
  using Communicator = typename M::Communicator;
  using Buffer = typename M::Engine::template Buffer<T>;
  using Request = decltype(std::declval<Communicator&>().async_barrier());

 public:
  explicit ShardedParameter(const Parameter<T, M>& whole)
      : whole_{whole},
        replicas_{whole.value.replica_ranks()}
  {
    if (!replicas_) return;
    const auto ranks = static_cast<std::size_t>(replicas_->size());
    const MatrixView<T> block = whole.value.padded;
    const std::size_t rows = block.rows();
    piece_ = rows == 1 ? ceil_div(block.cols(), ranks) : ceil_div(rows, ranks) * block.cols();
    gradient_ = Buffer(piece_);
    if (piece_ * ranks != block.size()) pieces_ = Buffer(piece_ * ranks), part_ = Buffer(piece_);
  }

  /// Returns this rank's part of the value and of the gradient.
  [[nodiscard]] Parameter<T, M> part()
  {
    if (!replicas_) return whole_;
    const auto& v = whole_.value;
    const DistView<T, M> part = v.parts();
    const auto at = [&](T* data) { return part.with(MatrixView<T>{data, part.padded.shape()}); };
    return {whole_.name, at(mine(v).data()), at(gradient_.data()), {}, whole_.decays};
  }

  [[nodiscard]] const T* gradient() const { return whole_.gradient.padded.data(); }

  /// Forgets a backward pass that an error interrupted.
  void begin()
  {
    wait();
    is_reduced_ = false;
  }
  /// Starts the sum of a gradient over its replicas and returns true. Returns false if the gradient
  /// is summed over other ranks.
  /// @pre the gradient has the memory of `gradient()`
  bool start_reduce(MatrixView<T> gradient, Communicator* replicas, GradientBuckets<T, M>& buckets)
  {
    if (!replicas_ || replicas != replicas_ || gradient.size() != whole_.gradient.padded.size())
      return false;
    const std::span<T> mine{gradient_.data(), piece_};
    if (buckets.takes(piece_ * static_cast<std::size_t>(replicas_->size())))
      buckets.scatter_sum(gradient, mine, *replicas_);
    else
      request_.emplace(replicas_->async_reduce_scatter(in_pieces(gradient), mine));
    is_reduced_ = true;
    return true;
  }

  /// Completes this rank's part of the gradient.
  void finish_reduce()
  {
    wait();
    if (!replicas_ || std::exchange(is_reduced_, false)) return;
    const auto from = mine(whole_.gradient);
    engine().copy(as_row(std::span<const T>{from}),
                  as_row(std::span<T>{gradient_.data(), from.size()}));
  }

  /// Starts the exchange of the values' parts.
  void start_gather()
  {
    if (!replicas_) return;
    const std::span<T> from = mine(whole_.value);
    if (pieces_.size() == 0)
      return void(
          request_.emplace(replicas_->async_all_gather(from, whole_.value.padded.elements())));
    engine().copy(as_row(std::span<const T>{from}),
                  as_row(std::span<T>{part_.data(), from.size()}));
    request_.emplace(replicas_->async_all_gather(std::span<const T>{part_.data(), piece_},
                                                 std::span<T>{pieces_.data(), pieces_.size()}));
  }
  void finish_gather()
  {
    if (!request_) return;
    wait();
    const auto all = whole_.value.padded.elements();
    if (pieces_.size() > 0)
      engine().copy(as_row(std::span<const T>{pieces_.data(), all.size()}), as_row(all));
  }

 private:
  [[nodiscard]] const typename M::Engine& engine() const { return whole_.value.mesh.engine(); }

  /// Returns this rank's part of a block.
  [[nodiscard]] std::span<T> mine(const DistView<T, M>& of) const
  {
    const auto all = of.padded.elements();
    const std::size_t begin =
        std::min(piece_ * static_cast<std::size_t>(replicas_->rank()), all.size());
    return all.subspan(begin, std::min(piece_, all.size() - begin));
  }

  /// Returns the gradient, padded with zeros to equal pieces.
  [[nodiscard]] std::span<const T> in_pieces(MatrixView<T> gradient)
  {
    const std::span<const T> all = gradient.elements();
    if (pieces_.size() == 0) return all;
    engine().copy(as_row(all), as_row(std::span<T>{pieces_.data(), all.size()}));
    engine().fill(as_row(std::span<T>{pieces_.data(), pieces_.size()}.subspan(all.size())), T{});
    return {pieces_.data(), pieces_.size()};
  }

  void wait()
  {
    if (request_) request_->wait();
    request_.reset();
  }

  Parameter<T, M> whole_;
  Communicator* replicas_;
  std::size_t piece_ = 0;  // the number of elements in a rank's part, with padding
  Buffer gradient_ = Buffer(0);
  Buffer pieces_ = Buffer(0);  // the pieces of all ranks, if they exceed the block
  Buffer part_ = Buffer(0);
  std::optional<Request> request_;
  bool is_reduced_ = false;
};

/// What a sharded optimizer needs to know about a network's parameters and gradients. The rest is
/// hidden from programs, so that the compiled library can contain it.
template <RealScalar T, class M>
class AnyShardedGradients
{
 public:
  virtual ~AnyShardedGradients() = default;
  /// This rank's parts, and frozen parameters.
  [[nodiscard]] virtual const Parameters<T, M>& parts() const = 0;
  /// Copies this rank's parts of the gradients if these are complete because no backward pass gave
  /// them to the reducer.
  virtual void copy_parts() = 0;
  /// The reducer that takes the gradients of micro-batches.
  [[nodiscard]] virtual GradientReducer<T, M>& reducer() = 0;
  /// Completes the values from the values of the parts.
  virtual void gather() = 0;
};

/// The parameters of a network, and the reducer that takes their gradients in all backward passes
/// while it exists.
template <RealScalar T, class M>
class ShardedParameters final : public GradientReducer<T, M>, public AnyShardedGradients<T, M>
{
  using typename GradientReducer<T, M>::Communicator;

 public:
  /// Every rank of the mesh constructs one.
  explicit ShardedParameters(const Parameters<T, M>& whole, std::size_t micro_batches = 1)
      : gradients_{whole.front().gradients},
        micro_batches_{whole.front().value.mesh, micro_batches, *this}
  {
    if (gradients_)
      scope_.emplace(gradients_, micro_batches_);
    else
      gradients_ = std::make_shared<Gradients<T, M>>(whole.front().value.mesh);
    parameters_.reserve(whole.size());
    for (const auto& p : whole)
    {
      if (!p.frozen) parameters_.emplace_back(p);
      parts_.push_back(p.frozen ? p : parameters_.back().part());
      parts_.back().gradients = {};
    }
  }
  ShardedParameters(ShardedParameters&&) = delete;

  void begin() override
  {
    buckets().begin();
    for (auto& p : parameters_) p.begin();
  }
  void reduce(MatrixView<T> gradient, Communicator* replicas) override
  {
    has_reduced_ = true;
    ShardedParameter<T, M>* const p = find(gradient.data());
    if (!p || !p->start_reduce(gradient, replicas, buckets())) buckets().reduce(gradient, replicas);
  }
  void finish() override
  {
    buckets().finish();
    for (auto& p : parameters_) p.finish_reduce();
  }

  [[nodiscard]] const Parameters<T, M>& parts() const override { return parts_; }
  void copy_parts() override
  {
    if (!has_reduced_)
      for (auto& p : parameters_) p.finish_reduce();
  }
  [[nodiscard]] GradientReducer<T, M>& reducer() override { return micro_batches_; }
  void gather() override
  {
    for (auto& p : parameters_) p.start_gather();
    for (auto& p : parameters_) p.finish_gather();
  }

 private:
  [[nodiscard]] GradientBuckets<T, M>& buckets() { return gradients_->buckets(); }

  /// Returns the parameter of a gradient, or null. Gradients come in the reverse order of
  /// parameters, so the search continues before the one that was found last.
  [[nodiscard]] ShardedParameter<T, M>* find(const T* gradient)
  {
    for (std::size_t tried = 0; tried < parameters_.size(); ++tried)
    {
      at_ = (at_ == 0 ? parameters_.size() : at_) - 1;
      if (parameters_[at_].gradient() == gradient) return &parameters_[at_];
    }
    return nullptr;
  }

  std::shared_ptr<Gradients<T, M>> gradients_;
  GradientAccumulator<T, M> micro_batches_;
  std::optional<ReducerScope<T, M>> scope_;
  std::vector<ShardedParameter<T, M>> parameters_;
  Parameters<T, M> parts_;
  std::size_t at_ = 0;
  bool has_reduced_ = false;
};

/// Every rank of the mesh calls it.
/// @throws ArgumentError if there are no parameters
template <RealScalar T, class M>
std::unique_ptr<AnyShardedGradients<T, M>> make_sharded_gradients(const Parameters<T, M>& whole,
                                                                  std::size_t micro_batches)
{
  require<ArgumentError>(!whole.empty(), "got no parameters to shard, so there is no mesh; "
                                         "give those of a network");
  return std::make_unique<ShardedParameters<T, M>>(whole, micro_batches);
}

/// The instances of the compiled library (cubist/core/instances.hpp).
#define CUBIST_SHARDED_INSTANCES(prefix, M, T)                                                     \
  CUBIST_INSTANCE(prefix, detail::make_sharded_gradients<T, M>)
CUBIST_FOR_TRAINED_MESHES(CUBIST_SHARDED_INSTANCES)

}  // namespace cubist::CUBIST_ABI::detail
