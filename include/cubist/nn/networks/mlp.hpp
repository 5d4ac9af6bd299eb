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
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "cubist/core/error.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/dist/dist_matrix.hpp"
#include "cubist/dist/global.hpp"
#include "cubist/nn/functions/activation.hpp"
#include "cubist/nn/functions/initial_values.hpp"
#include "cubist/nn/layer.hpp"
#include "cubist/nn/layers/dense.hpp"
#include "cubist/nn/layers/dropout.hpp"
#include "cubist/nn/layers/linear.hpp"
#include "cubist/nn/networks/any_layer.hpp"
#include "cubist/nn/networks/layer_stack.hpp"
#include "cubist/nn/networks/network.hpp"
#include "cubist/nn/networks/network_handle.hpp"
#include "cubist/nn/networks/network_matrix.hpp"
#include "cubist/nn/networks/pipeline_options.hpp"
#include "cubist/nn/parameter.hpp"
#include "cubist/nn/parameter_names.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist::CUBIST_ABI
{

/// Options of an MLP; they apply to every layer.
struct MlpOptions
{
  Activation activation = gelu;  ///< between layers; not after the last
  /// The activation of the last layer.
  Activation output = identity;
  /// The probability that an element between two layers is dropped while training.
  double dropout = 0;
  bool bias = true;
  std::uint64_t seed = 0;
  Gathered gathered = Gathered::kept;
  Method method = Method::automatic;
  /// The probability that an element of the last layer's output is dropped while training.
  double output_dropout = 0;
  /// The initial values of the weights of every layer.
  Initial initial_weights = Uniform{};
  Initial initial_bias = Uniform{};  ///< the initial values of the biases
  /// The number of layers in a segment. Only the last output of each segment is kept; backward
  /// computes the others again, with the same bits. 0 keeps all. (docs/training.md)
  std::size_t recompute = 0;
  /// The names of parameters that are frozen, with * for any characters, as {"layers.0.*"}. They
  /// have no gradient, optimizers have no state for them, and `backward` ends with the first layer
  /// that is trained.
  std::vector<std::string> frozen = {};
  /// The stages and micro-batches of a network on a Pipeline (scheme/pipeline.hpp).
  PipelineOptions pipeline = {};
};

/// The quality of a network on labelled data.
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

/// Layer i of an MLP, from sizes[i] to sizes[i + 1] features.
/// @throws ShapeError for sizes of 0, ArgumentError for options out of range
template <SchemeType S, class B, RealScalar T>
std::unique_ptr<AnyLayer<NetworkMatrix<S, B, T>, T>>
make_mlp_layer(const AxisMesh<typename S::Axes, B>& mesh, const std::vector<std::size_t>& sizes,
               const MlpOptions& options, std::size_t i)
{
  const bool is_last = i + 2 == sizes.size();
  const LinearOptions linear{.bias = options.bias,
                             .seed = options.seed,
                             .index = i,
                             .gathered = options.gathered,
                             .method = options.method,
                             .initial_weights = options.initial_weights,
                             .initial_bias = options.initial_bias};
  const Dropout between{options.dropout};  // checks the probability for a single layer, too
  const Dropout dropout{is_last ? options.output_dropout : between.probability(), options.seed, i};
  const auto make =
      [&]<class LayerScheme>(
          std::type_identity<LayerScheme>) -> std::unique_ptr<AnyLayer<NetworkMatrix<S, B, T>, T>> {
    using MlpLayer = Dense<LayerScheme, B, T>;
    return std::make_unique<LayerOf<NetworkMatrix<S, B, T>, MlpLayer>>(
        MlpLayer{mesh, sizes[i], sizes[i + 1], linear,
                 is_last ? options.output : options.activation, dropout});
  };
  if (i % 2 == 0) return make(std::type_identity<S>{});
  return make(std::type_identity<typename S::Next>{});
}

/// What a program knows of an MLP: not how it is made, which takes the layers. The compiled library
/// has these.
template <SchemeType S, class B, RealScalar T>
class AnyMlp : public Network<T, AxisMesh<typename S::Axes, B>>
{
 public:
  using typename Network<T, AxisMesh<typename S::Axes, B>>::Mesh;
  using Input = DistMatrix<T, typename S::Input, Mesh>;
  using Activations = NetworkMatrix<S, B, T>;

  [[nodiscard]] virtual std::size_t layers() const = 0;

  [[nodiscard]] virtual std::unique_ptr<NetworkKept> make_kept() const = 0;
  /// @param kept of make_kept(), or null for the network's own
  virtual const Activations& forward(const Input& x, NetworkKept* kept) = 0;
  /// Passes dY back through the layers. Returns dX, or null where it is not wanted.
  virtual const Activations* backward(const Activations& dy, NetworkKept* kept, bool wants_dx) = 0;
  /// Y, without dropout. A forward that waits for its backward is not disturbed.
  virtual const Activations& predict(const Input& x) = 0;

 protected:
  using Network<T, AxisMesh<typename S::Axes, B>>::Network;
};

template <SchemeType S, class B, RealScalar T>
class MlpNetwork final : public AnyMlp<S, B, T>
{
  using Any = AnyMlp<S, B, T>;
  using Stack = LayerStack<NetworkMatrix<S, B, T>, AnyLayer<NetworkMatrix<S, B, T>, T>>;

 public:
  using typename Any::Activations;
  using typename Any::Input;
  using typename Any::Mesh;

  /// Layers from sizes[0] to sizes[1] features, from there to sizes[2], and so on.
  /// @throws ShapeError for fewer than two sizes or one of 0, ArgumentError for options out of
  /// range
  MlpNetwork(const Mesh& mesh, const std::vector<std::size_t>& sizes, const MlpOptions& options)
      : Any{mesh, options.seed}, layers_{"forward of layer", "backward of layer", options.recompute}
  {
    require<ShapeError>(
        sizes.size() >= 2, "got ", sizes.size(),
        " sizes for an MLP, so it would have no layer; give the sizes of its input, its hidden "
        "layers and its output");
    Freezing freezing{options.frozen};
    bool all_are_frozen = true;
    for (std::size_t i = 0; i + 1 < sizes.size(); ++i)
    {
      layers_.add(make_mlp_layer<S, B, T>(mesh, sizes, options, i));
      const bool is_frozen = freezing.freeze(*layers_.layers().back(), layer_name(i));
      all_are_frozen = all_are_frozen && is_frozen;
      if (all_are_frozen) first_trained_ = i + 1;
    }
    freezing.require_all_used();
  }

  /// What a forward leaves for its backward.
  struct Kept final : NetworkKept
  {
    [[nodiscard]] bool awaits_backward() const override { return layers.awaits_backward(); }

    std::optional<Activations> x;
    typename Stack::Kept layers;
  };

  [[nodiscard]] std::unique_ptr<NetworkKept> make_kept() const override
  {
    return std::make_unique<Kept>();
  }

  const Activations& forward(const Input& x, NetworkKept* kept) override
  {
    return run(x, this->next_pass(), of(kept));
  }

  const Activations* backward(const Activations& dy, NetworkKept* any, bool wants_dx) override
  {
    Kept& kept = of(any);
    kept.layers.require_forward();
    auto& reducer = this->begin_gradients();
    const Activations* dx =
        layers_.backward(dy, reducer, kept.layers, wants_dx, wants_dx ? 0 : first_trained_);
    reducer.finish();
    return dx;
  }

  [[nodiscard]] std::size_t layers() const override { return layers_.layers().size(); }

  /// layers.0.weight, layers.0.bias, layers.1.weight, …
  void append_parameters(Parameters<T, Mesh>& list) override
  {
    const auto& layers = layers_.layers();
    for (std::size_t i = 0; i < layers.size(); ++i)
      layers[i]->append_parameters(list, layer_name(i));
  }

  const Activations& predict(const Input& x) override
  {
    Kept& kept = kept_.for_evaluation();
    const Activations& y = run(x, {}, kept);
    kept.layers.discard();
    return y;
  }

 private:
  [[nodiscard]] static std::string layer_name(std::size_t i)
  {
    return "layers." + std::to_string(i) + ".";
  }

  Kept& of(NetworkKept* kept) { return kept ? static_cast<Kept&>(*kept) : kept_.of_forward(); }

  /// Passes X through the layers.
  const Activations& run(const Input& x, const Pass& pass, Kept& kept)
  {
    kept.layers.discard();
    return layers_.forward(copy_to(kept.x, x), pass, kept.layers);
  }

  Stack layers_;
  std::size_t first_trained_ = 0;  // layer; those before it are frozen
  KeptOfNetwork<Kept> kept_;
};

/// @throws ShapeError for fewer than two sizes or one of 0, ArgumentError for options out of range
template <SchemeType S, class B, RealScalar T>
std::unique_ptr<AnyMlp<S, B, T>> make_mlp(const AxisMesh<typename S::Axes, B>& mesh,
                                          const std::vector<std::size_t>& sizes,
                                          const MlpOptions& options)
{
  return std::make_unique<MlpNetwork<S, B, T>>(mesh, sizes, options);
}

}  // namespace detail

/// The parameters are layers.0.weight, layers.0.bias, layers.1.weight, …
/// @tparam S a scheme; on a Pipeline of one, nn/networks/pipelined_mlp.hpp has the network
template <NetworkScheme S, BackendWithItsHeader B, RealScalar T>
class MLP : public detail::NetworkHandle<detail::AnyMlp<S, B, T>>
{
  static_assert(!is_pipeline<S>, "this MLP is one in stages, whose layers are on several meshes; "
                                 "include cubist/nn/networks/pipelined_mlp.hpp");
  using Base = detail::NetworkHandle<detail::AnyMlp<S, B, T>>;

 public:
  using typename Base::Kept;
  using typename Base::Mesh;
  /// Outputs, whose layout depends on the number of layers.
  using Activations = NetworkMatrix<S, B, T>;

  /// Layers from sizes[0] to sizes[1] features, from there to sizes[2], and so on.
  /// @throws ShapeError for fewer than two sizes or one of 0, ArgumentError for options out of
  /// range
  MLP(const Mesh& mesh, const std::vector<std::size_t>& sizes, const MlpOptions& options = {})
      : Base{detail::make_mlp<S, B, T>(mesh, sizes, options)}
  {
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
    return this->network().forward(x, nullptr);
  }
  /// Y, which is in `kept`, so several forwards may wait for their backwards.
  template <class L>
  const Activations& forward(const DistMatrix<T, L, Mesh>& x, Kept& kept)
  {
    detail::require_layout<L, typename S::Input>();
    return this->network().forward(x, this->of(kept));
  }
  /// Does not compile: X is not distributed.
  template <class X>
  requires(!std::convertible_to<const X&, Activations>) const Activations& forward(const X&)
  {
    detail::require_distributed<X, T, Mesh>();
    const Activations* const none = nullptr;
    return *none;
  }

  /// A target for the loss: the elements of rank 0's `global` (M, sizes[L]), cut as Y is. Every
  /// rank of the mesh calls this.
  /// @throws ShapeError unless `global` has two dimensions; MeshError on an idle rank
  template <class E>
  [[nodiscard]] Activations scatter_target(const E& global) const
  {
    if (this->network().layers() % 2 == 0)
      return detail::scatter_as<T, typename S::Input>(this->mesh(), global);
    return detail::scatter_as<T, typename S::Output>(this->mesh(), global);
  }

  /// The gradients of all parameters, for the gradient of the last `forward`'s Y.
  /// @throws ShapeError, MeshError for a dY that is not like Y; ArgumentError without a forward
  void backward(const Activations& dy) { this->network().backward(dy, nullptr, false); }
  /// The gradients of all parameters, for the forward that `kept` is of.
  void backward(const Activations& dy, Kept& kept)
  {
    this->network().backward(dy, this->of(kept), false);
  }

  /// Computes dX, the gradient of X, as well, which takes one more product. The network owns it,
  /// and overwrites it in the next call.
  const Activations& backward_with_input(const Activations& dy)
  {
    return *this->network().backward(dy, nullptr, true);
  }
  const Activations& backward_with_input(const Activations& dy, Kept& kept)
  {
    return *this->network().backward(dy, this->of(kept), true);
  }

  /// Softmax cross-entropy and accuracy on labelled data, without dropout. A forward that waits for
  /// its backward is not disturbed.
  [[nodiscard]] Score evaluate(const Activations& x, std::span<const int> labels)
  {
    const Activations& y = this->network().predict(x.template as<typename S::Input>());
    auto scratch = zeros_like(y);
    return {softmax_cross_entropy(y, labels, scratch), accuracy(y, labels)};
  }
};

}  // namespace cubist::CUBIST_ABI
