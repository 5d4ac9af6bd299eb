// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The calls of a network of consecutive layers. They are the same whether the network is whole or
// in stages:
//
//   const double loss = net.compute_gradients(x, labels);   // or a target
//   optimizer.step(parameters);
//   const Score score = net.evaluate(x, labels);
//   const auto& y = net.predict(x);
//
//   X (M, K) S::Input    Y (M, N) S::Input or S::Next::Input
//
// A network provides `evaluate`, `predict`, `train_step`, which passes Y to a loss and takes dY
// back, and `rows_of`, which returns rows of a target.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cubist/core/error.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/matrix/dist_matrix.hpp"
#include "cubist/matrix/global.hpp"
#include "cubist/mesh/stages.hpp"
#include "cubist/nn/losses/labels.hpp"
#include "cubist/nn/losses/loss.hpp"
#include "cubist/nn/networks/network.hpp"
#include "cubist/nn/networks/network_handle.hpp"
#include "cubist/nn/networks/network_matrix.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist::CUBIST_ABI
{

/// The loss and accuracy of a network on labelled data.
struct Score
{
  double loss = 0;
  double accuracy = 0;  ///< the fraction of rows whose largest output is the label's

  /// Writes "loss 0.25  accuracy 0.97".
  friend std::ostream& operator<<(std::ostream& out, const Score& s)
  {
    return out << "loss " << s.loss << "  accuracy " << s.accuracy;
  }
};

namespace detail
{

/// The sizes and layouts of the matrices between the layers of a network.
struct LayerWidths
{
  std::vector<std::size_t> sizes;  ///< the columns of X and of each layer's output
  std::vector<bool> is_even;  ///< whether they are cut like S::Input, or else like S::Next::Input
  std::string prefix;         ///< what precedes "i." in the names of layer i's parameters
};

/// @tparam S a scheme, or a Pipeline of one
template <NetworkScheme S, class B, RealScalar T>
class LayeredNetwork : public Network<T, AxisMesh<typename S::Axes, B>>
{
  using Base = Network<T, AxisMesh<typename S::Axes, B>>;

 public:
  using typename Base::Mesh;
  using Activations = NetworkMatrix<S, B, T>;
  using Input = typename Activations::Even;

  [[nodiscard]] const LayerWidths& widths() const { return widths_; }

 protected:
  LayeredNetwork(const Mesh& mesh, std::uint64_t seed, LayerWidths widths)
      : Base{mesh, seed},
        widths_{std::move(widths)}
  {
  }

 private:
  LayerWidths widths_;
};

/// @tparam N  a class derived from LayeredNetwork
template <class N>
class LayeredHandle : public NetworkHandle<N>
{
  using Base = NetworkHandle<N>;

 public:
  using typename Base::Mesh;
  using typename Base::Value;
  /// The outputs, whose layout depends on the number of layers.
  using Activations = typename N::Activations;
  /// The input; on a mesh with stages, all stages hold it. Calls also take it as Activations.
  using Input = typename N::Input;

  /// Computes the gradients of all parameters for the mean softmax cross-entropy over all rows that
  /// have a label, multiplied by `scale`. Returns that mean, the same on every rank. Every rank of
  /// the mesh calls it.
  /// @param labels one for each row, the same on every rank, as softmax_cross_entropy() takes them
  /// @throws ShapeError, MeshError if X or the labels do not fit; ArgumentError for fewer rows than
  /// micro-batches
  template <class X>
  LossValue compute_gradients(const X& x, std::span<const int> labels, double scale = 1)
  {
    const Input& in = input(x);
    check_labels(labels, output_shape(in));
    return this->network().train_step(
        in, count_labels(labels), scale, [&](const auto& y, auto& dy, std::size_t first) {
          const auto mine = labels.subspan(first, y.rows());
          return CountedMean{softmax_cross_entropy(y, mine, dy), count_labels(mine)};
        });
  }
  /// Computes the gradients of all parameters for the mean of (Y - target)^2 over all elements,
  /// multiplied by `scale`. Returns that mean, the same on every rank.
  /// @param target Activations or a DistMatrix, cut like Y; scatter_target() makes one
  /// @throws ShapeError, MeshError if X or the target does not fit; ArgumentError for fewer rows
  /// than micro-batches
  template <class X, class Target>
  requires(!std::convertible_to<const Target&, std::span<const int>>) LossValue
      compute_gradients(const X& x, const Target& target, double scale = 1)
  {
    if constexpr (HasStages<Mesh> && std::is_same_v<Target, Activations>)
      return target.visit([&](const auto& matrix) { return compute_gradients(x, matrix, scale); });
    else
    {
      const Input& in = input(x);
      require<ShapeError>(target.shape() == output_shape(in), "got a target of ", target.shape(),
                          " for outputs of ", output_shape(in),
                          ", so their elements do not correspond; give it the outputs' shape");
      auto rows = this->network().rows_of(target);
      return this->network().train_step(
          in, in.rows(), scale, [&](const auto& y, auto& dy, std::size_t first) {
            return CountedMean{mean_squared_error(y, rows(y, first), dy), y.rows()};
          });
    }
  }

  /// Returns softmax cross-entropy and accuracy on labelled data, without dropout, the same on
  /// every rank. It does not disturb a forward pass that waits for its backward pass.
  template <class X>
  [[nodiscard]] Score evaluate(const X& x, std::span<const int> labels)
  {
    const Input& in = input(x);
    check_labels(labels, output_shape(in));
    return this->network().evaluate(in, labels);
  }

  /// Returns Y without dropout; on a mesh with stages, all of them hold it. The network owns it,
  /// and overwrites it in the next call. The call does not disturb a forward pass that waits for
  /// its backward pass.
  template <class X>
  [[nodiscard]] const Activations& predict(const X& x)
  {
    return this->network().predict(input(x));
  }

  /// Returns a target for the loss: the elements of rank 0's `global` (M, N), cut like Y. Every
  /// rank of the mesh calls this.
  /// @throws ShapeError unless `global` has two dimensions; MeshError on an idle rank
  template <class E>
  [[nodiscard]] Activations scatter_target(const E& global) const
  {
    if (this->network().widths().is_even.back())
      return scatter_as<Value, typename Activations::Even::Layout>(this->mesh(), global);
    return scatter_as<Value, typename Activations::Odd::Layout>(this->mesh(), global);
  }

 protected:
  using Base::Base;

  /// Returns X as the Input that a network takes; an rvalue stays an rvalue.
  template <class X>
  [[nodiscard]] static decltype(auto) input(X&& x)
  {
    using Given = std::remove_cvref_t<X>;
    using L = typename Input::Layout;
    if constexpr (std::is_same_v<Given, Input>)
      return std::forward<X>(x);
    else if constexpr (std::is_same_v<X, Activations>)
      return std::move(x.template as<L>());
    else if constexpr (std::is_same_v<Given, Activations>)
      return std::as_const(x).template as<L>();
    else
    {
      require_distributed<Given, Value, Mesh>();
      if constexpr (DistMatrixOf<Given, Value, Mesh>) require_layout<typename Given::Layout, L>();
      const Input* const none = nullptr;
      return *none;
    }
  }

 private:
  [[nodiscard]] Shape output_shape(const Input& x) const
  {
    return {x.rows(), this->network().widths().sizes.back()};
  }
};

}  // namespace detail

}  // namespace cubist::CUBIST_ABI
