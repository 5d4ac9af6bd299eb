// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A multi-layer perceptron on any scheme and backend: layers of Linear, activation and dropout. The
// last layer has its own activation and its own probability of dropout.
//
//   X (M, sizes[0]) S::Input    Y (M, sizes[L]): S::Input if L is even, S::Output if it is odd

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cubist/core/error.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/dist/dist_matrix.hpp"
#include "cubist/dist/global.hpp"
#include "cubist/dist/state.hpp"
#include "cubist/nn/activation.hpp"
#include "cubist/nn/activations.hpp"
#include "cubist/nn/dense.hpp"
#include "cubist/nn/dropout.hpp"
#include "cubist/nn/layer.hpp"
#include "cubist/nn/layer_stack.hpp"
#include "cubist/nn/linear.hpp"
#include "cubist/nn/parameter.hpp"
#include "cubist/nn/random.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist::CUBIST_ABI
{

/// Of all layers of a network.
struct MlpOptions
{
  Activation activation = gelu;  ///< between layers; not after the last
  /// Of the last layer.
  Activation output = identity;
  /// The probability that an element between two layers is dropped while training.
  double dropout = 0;
  bool bias = true;
  std::uint64_t seed = 0;
  Gathered gathered = Gathered::kept;
  Method method = Method::automatic;
  /// The probability that an element of the last layer's output is dropped while training.
  double output_dropout = 0;
  /// Of every layer.
  Initial initial_weights = Uniform{};
  Initial initial_bias = Uniform{};  ///< of the biases
  /// Of every so many layers only the last output is kept; backward computes the others again, with
  /// the same bits. 0 keeps all. (docs/training.md)
  std::size_t recompute = 0;
};

/// The quality of a network on labelled data.
struct Score
{
  double loss = 0;
  double accuracy = 0;  ///< the fraction of rows whose largest output is the label's
};

namespace detail
{

/// A dense layer of an MLP, of scheme S or S::Next.
template <class A, SchemeType S, class B, RealScalar T>
class MlpLayer final : public AnyLayer<A, T>
{
 public:
  using Mesh = typename A::Mesh;

  explicit MlpLayer(Dense<S, B, T> dense) : dense_{std::move(dense)} {}

  const A& forward(const A& x, const Pass& pass) override
  {
    using Y = typename S::Output;
    const auto& in = x.template as<typename S::Input>();
    if (!y_ || y_->shape() != Shape{in.rows(), dense_.out()} ||
        y_->template as<Y>().quanta().rows != in.quanta().rows)
      y_.emplace(dense_.make_output(in));
    dense_.forward(in, y_->template as<Y>(), pass);
    return *y_;
  }

  const A* backward(const A& x, const A& dy, const Pass& pass, bool wants_dx) override
  {
    using X = typename S::Input;
    const auto& in = x.template as<X>();
    if (wants_dx &&
        (!dx_ || dx_->shape() != in.shape() || dx_->template as<X>().quanta() != in.quanta()))
      dx_.emplace(typename Dense<S, B, T>::Input{in.mesh(), in.shape(), in.quanta()});
    dense_.backward(in, dy.template as<typename S::Output>(), pass,
                    wants_dx ? &dx_->template as<X>() : nullptr);
    return wants_dx ? &*dx_ : nullptr;
  }

  void finish_backward() override { dense_.finish_backward(); }

  void append_parameters(Parameters<T, Mesh>& list, const std::string& prefix) override
  {
    dense_.append_parameters(list, prefix);
  }

  void swap_activations(AnyLayer<A, T>& other) override
  {
    auto& layer = static_cast<MlpLayer&>(other);
    std::swap(y_, layer.y_), std::swap(dx_, layer.dx_);
    dense_.swap_activations(layer.dense_);
  }

 private:
  Dense<S, B, T> dense_;
  std::optional<A> y_;
  std::optional<A> dx_;
};

}  // namespace detail

template <SchemeType S, class B, RealScalar T>
class MLP
{
 public:
  using Value = T;
  /// Outputs, whose layout depends on the number of layers.
  using Activations = cubist::Activations<S, B, T>;
  using Mesh = typename Activations::Mesh;

  /// Layers from sizes[0] to sizes[1] features, from there to sizes[2], and so on.
  /// @throws ShapeError for fewer than two sizes or one of 0, ArgumentError for options out of
  /// range
  MLP(const Mesh& mesh, const std::vector<std::size_t>& sizes, const MlpOptions& options = {})
      : mesh_{mesh}, layers_{"forward of layer", "backward of layer", options.recompute},
        seed_{options.seed}
  {
    require<ShapeError>(
        sizes.size() >= 2, "got ", sizes.size(),
        " sizes for an MLP, which make no layer; give those of its input, its hidden "
        "layers and its output");
    const Dropout between{options.dropout};  // checks it for a single layer, too
    const std::size_t last = sizes.size() - 2;
    for (std::size_t i = 0; i <= last; ++i)
    {
      const LinearOptions linear{.bias = options.bias,
                                 .seed = options.seed,
                                 .index = i,
                                 .gathered = options.gathered,
                                 .method = options.method,
                                 .initial_weights = options.initial_weights,
                                 .initial_bias = options.initial_bias};
      const auto& activation = i == last ? options.output : options.activation;
      const Dropout dropout{i == last ? options.output_dropout : between.probability(),
                            options.seed, i};
      const auto add = [&]<class LayerScheme>(std::type_identity<LayerScheme>) {
        layers_.add(std::make_unique<detail::MlpLayer<Activations, LayerScheme, B, T>>(
            Dense<LayerScheme, B, T>{mesh, sizes[i], sizes[i + 1], linear, activation, dropout}));
      };
      if (i % 2 == 0)
        add(std::type_identity<S>{});
      else
        add(std::type_identity<typename S::Next>{});
    }
  }

  /// Y, which the network owns, and overwrites in the next `forward`.
  /// @throws ShapeError, MeshError for an X that does not fit
  const Activations& forward(const Activations& x)
  {
    return forward(x.template as<typename S::Input>());
  }
  template <class L>
  const Activations& forward(const DistMatrix<T, L, Mesh>& x)
  {
    detail::require_layout<L, typename S::Input>();
    if (!training_) return run(x, {});
    return run(x, {.training_step = detail::next_step(mesh_.engine(), steps_)});
  }
  /// Does not compile: X is not distributed.
  template <class X>
  requires(!std::convertible_to<const X&, Activations>) const Activations& forward(const X&)
  {
    detail::require_distributed<X, T, Mesh>();
    return *x_;
  }

  /// A target for the loss: the elements of rank 0's `global` (M, sizes[L]), cut as Y is. Every
  /// rank of the mesh calls this.
  /// @throws ShapeError unless `global` has two dimensions; MeshError on an idle rank
  template <class E>
  [[nodiscard]] Activations scatter_target(const E& global) const
  {
    if (layers_.layers().size() % 2 == 0)
      return detail::scatter_as<T, typename S::Input>(mesh_, global);
    return detail::scatter_as<T, typename S::Output>(mesh_, global);
  }

  /// The gradients of all parameters, for the gradient of the last `forward`'s Y.
  /// @throws ShapeError, MeshError for a dY that is not like Y; ArgumentError without a
  /// forward, and after an `evaluate` that came after it
  void backward(const Activations& dy) { run_backward(dy, false); }

  /// The same, and dX, the gradient of X: one product more. The network owns it, and overwrites it
  /// in the next call.
  const Activations& backward_with_input(const Activations& dy) { return *run_backward(dy, true); }

  /// layers.0.weight, layers.0.bias, layers.1.weight, …
  [[nodiscard]] Parameters<T, Mesh> parameters()
  {
    Parameters<T, Mesh> list;
    const auto& layers = layers_.layers();
    for (std::size_t i = 0; i < layers.size(); ++i)
      layers[i]->append_parameters(list, "layers." + std::to_string(i) + ".");
    return list;
  }

  /// The parameters' values, by their names, and the seed and step of the next dropout masks.
  void append_state(State<T, Mesh>& state, const std::string& prefix = "")
  {
    for (const auto& p : parameters()) state.matrices.push_back({prefix + p.name, p.value});
    state.numbers.push_back({prefix + "seed", &seed_, true});
    state.numbers.push_back({prefix + "forwards", &steps_});
  }

  /// Dropout applies in training mode, the mode of a new network.
  void train() { training_ = true; }
  /// From now on dropout does nothing.
  void eval() { training_ = false; }
  /// Whether dropout is applied.
  [[nodiscard]] bool training() const { return training_; }

  /// Softmax cross-entropy and accuracy on labelled data, without dropout. It replaces the outputs
  /// that `forward` kept, so the next `backward` needs another `forward`.
  [[nodiscard]] Score evaluate(const Activations& x, std::span<const int> labels)
  {
    const Activations& y = run(x.template as<typename S::Input>(), {});
    layers_.discard();
    auto scratch = zeros_like(y);
    return {softmax_cross_entropy(y, labels, scratch), accuracy(y, labels)};
  }

 private:
  using Layer = detail::AnyLayer<Activations, T>;

  /// Passes X through the layers.
  const Activations& run(const DistMatrix<T, typename S::Input, Mesh>& x, const Pass& pass)
  {
    return layers_.forward(detail::copy_to(x_, x), pass);
  }

  /// Passes dY back through the layers. Returns dX, or null where it is not wanted.
  const Activations* run_backward(const Activations& dy, bool wants_dx)
  {
    const Activations* dx = layers_.backward(dy, wants_dx);
    layers_.finish_backward();
    return dx;
  }

  Mesh mesh_;
  detail::LayerStack<Activations, Layer> layers_;
  std::optional<Activations> x_;
  bool training_ = true;
  std::uint64_t seed_;
  std::uint64_t steps_ = 0;  // forwards in training mode
};

}  // namespace cubist::CUBIST_ABI
