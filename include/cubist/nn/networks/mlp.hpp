// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A multi-layer perceptron on any scheme and backend: layers of Linear, activation and dropout. The
// last layer has its own activation and dropout probability.
//
//   X (M, sizes[0]) S::Input    Y (M, sizes[L]): S::Input if L is even, S::Output if it is odd

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cubist/core/error.hpp"
#include "cubist/core/instances.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/gradients/parameter.hpp"
#include "cubist/matrix/dist_matrix.hpp"
#include "cubist/model/lora_options.hpp"
#include "cubist/model/pipeline_options.hpp"
#include "cubist/nn/dense/activation.hpp"
#include "cubist/nn/dense/dense.hpp"
#include "cubist/nn/dense/linear.hpp"
#include "cubist/nn/dense/lora.hpp"
#include "cubist/nn/dropout.hpp"
#include "cubist/nn/initial_values.hpp"
#include "cubist/nn/layer.hpp"
#include "cubist/nn/networks/any_layer.hpp"
#include "cubist/nn/networks/layer_stack.hpp"
#include "cubist/nn/networks/layered_network.hpp"
#include "cubist/nn/networks/network.hpp"
#include "cubist/nn/networks/network_matrix.hpp"
#include "cubist/nn/parameter_names.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist::CUBIST_ABI
{

/// The options of an MLP. They apply to every layer unless they name the last one.
struct MlpOptions
{
  Activation activation = gelu;  ///< the activation between layers, not after the last
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
  /// computes the others again, with the same bits. 0 keeps all. (docs/memory.md)
  std::size_t recompute = 0;
  /// The names of parameters that are frozen, with * for any characters, such as {"layers.0.*"}.
  /// They have no gradient, optimizers keep no state for them, and `backward` stops at the first
  /// trained layer.
  std::vector<std::string> frozen = {};
  /// The stages and micro-batches of a network on a Pipeline (scheme/pipeline.hpp).
  PipelineOptions pipeline = {};
};

namespace detail
{

/// Makes layer i of an MLP, from sizes[i] to sizes[i + 1] features.
/// @throws ShapeError for sizes of 0, ArgumentError for options out of range
template <SchemeType S, class B, RealScalar T>
std::unique_ptr<AnyLayer<NetworkMatrix<S, B, T>, T>>
make_mlp_layer(const AxisMesh<typename S::Axes, B>& mesh, const std::vector<std::size_t>& sizes,
               const MlpOptions& options, std::size_t i)
{
  using A = NetworkMatrix<S, B, T>;
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
  const auto make = [&]<class L>(std::type_identity<L>) -> std::unique_ptr<AnyLayer<A, T>> {
    return std::make_unique<LayerOf<A, L>>(L{mesh, sizes[i], sizes[i + 1], linear,
                                             is_last ? options.output : options.activation,
                                             dropout});
  };
  if (i % 2 == 0) return make(std::type_identity<Dense<S, B, T>>{});
  return make(std::type_identity<Dense<typename S::Next, B, T>>{});
}

/// @throws ShapeError for fewer than two sizes
[[nodiscard]] inline LayerWidths mlp_widths(const std::vector<std::size_t>& sizes)
{
  require<ShapeError>(
      sizes.size() >= 2, "got ", sizes.size(),
      " sizes for an MLP, so it would have no layer; give the sizes of its input, its hidden "
      "layers and its output");
  LayerWidths widths{sizes, {}, "layers."};
  for (std::size_t i = 0; i < sizes.size(); ++i) widths.is_even.push_back(i % 2 == 0);
  return widths;
}

/// The interface of an MLP that is whole on a mesh. A program can call it without compiling the
/// layers, which the compiled library contains.
template <SchemeType S, class B, RealScalar T>
class AnyMlp : public LayeredNetwork<S, B, T>
{
  using Base = LayeredNetwork<S, B, T>;

 public:
  using typename Base::Activations;
  using typename Base::Input;

  [[nodiscard]] virtual std::unique_ptr<NetworkKept> make_kept() const = 0;
  /// @param kept from make_kept(), or null for the network's own
  virtual const Activations& forward(const Input& x, NetworkKept* kept) = 0;
  virtual const Activations& forward(Input&& x, NetworkKept* kept) = 0;
  /// Passes dY back through the layers. Returns dX, or null if it is not wanted.
  virtual const Activations* backward(const Activations& dy, NetworkKept* kept, bool wants_dx) = 0;
  virtual const Activations& predict(const Input& x) = 0;

  /// @param loss loss(Y, dY, first row) computes dY and the mean over the rows
  template <class Loss>
  LossValue train_step(const Input& x, std::size_t, double scale, Loss loss)
  {
    const Activations& y = forward(x, nullptr);
    Activations& dy = fit_like(dy_, y);
    LossValue mean = loss(y, dy, 0).mean;
    scale_gradient(dy, scale);
    backward(dy, nullptr, false);
    return mean;
  }
  [[nodiscard]] Score evaluate(const Input& x, std::span<const int> labels)
  {
    const Activations& y = predict(x);
    return {softmax_cross_entropy(y, labels, fit_like(dy_, y)), accuracy(y, labels)};
  }
  /// Returns a function of `y` and a first row that returns as many rows of the target as `y` has.
  /// Here these are all rows.
  template <class Target>
  [[nodiscard]] static auto rows_of(const Target& target)
  {
    return [&target](const Activations&, std::size_t) -> const Target& { return target; };
  }

 protected:
  using Base::Base;

 private:
  std::optional<Activations> dy_;
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

  MlpNetwork(const Mesh& mesh, const std::vector<std::size_t>& sizes, const MlpOptions& options,
             LoraRequest<T, Mesh>* lora)
      : Any{mesh, options.seed, mlp_widths(sizes)},
        layers_{"forward of layer", "backward of layer", options.recompute}
  {
    Freezing freezing{options.frozen};
    first_trained_ = freezing.freeze_layers(
        sizes.size() - 1, this->widths().prefix,
        [&](std::size_t i) -> auto& {
          return layers_.add(make_mlp_layer<S, B, T>(mesh, sizes, options, i));
        },
        lora);
  }

  /// What `forward` leaves for `backward`.
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

  const Activations& forward(const Input& x, NetworkKept* any) override
  {
    Kept& kept = of(any);
    kept.layers.discard();
    copy_to(kept.x, Activations{&x});
    return layers_.forward(*kept.x, this->next_pass(), kept.layers);
  }
  const Activations& forward(Input&& x, NetworkKept* any) override
  {
    Kept& kept = of(any);
    kept.layers.discard();
    kept.x.emplace(std::move(x));
    return layers_.forward(*kept.x, this->next_pass(), kept.layers);
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

  void append_parameters(Parameters<T, Mesh>& list) override
  {
    const auto& layers = layers_.layers();
    for (std::size_t i = 0; i < layers.size(); ++i)
      layers[i]->append_parameters(list, layer_name(i, this->widths().prefix));
  }

  const Activations& predict(const Input& x) override
  {
    Kept& kept = kept_.for_evaluation();
    const Activations in{&x};  // `backward` does not read it
    const Activations& y = layers_.forward(in, {}, kept.layers);
    kept.layers.discard();
    return y;
  }

 private:
  Kept& of(NetworkKept* kept) { return kept ? static_cast<Kept&>(*kept) : kept_.of_forward(); }

  Stack layers_;
  std::size_t first_trained_ = 0;  // the layers before it are frozen
  KeptOfNetwork<Kept> kept_;
};

/// @throws ShapeError for fewer than two sizes or one of 0, ArgumentError for options out of range
template <SchemeType S, class B, RealScalar T>
std::unique_ptr<AnyMlp<S, B, T>>
make_mlp(const AxisMesh<typename S::Axes, B>& mesh, const std::vector<std::size_t>& sizes,
         const MlpOptions& options, LoraRequest<T, AxisMesh<typename S::Axes, B>>* lora)
{
  return std::make_unique<MlpNetwork<S, B, T>>(mesh, sizes, options, lora);
}

}  // namespace detail

/// A multi-layer perceptron. Its parameters are layers.0.weight, layers.0.bias, layers.1.weight, …
/// @tparam S a scheme; for a Pipeline, include nn/pipeline/pipelined_mlp.hpp
template <NetworkScheme S, BackendWithItsHeader B, RealScalar T>
class MLP : public detail::LayeredHandle<detail::AnyMlp<S, B, T>>
{
  static_assert(!is_pipeline<S>, "this MLP is in stages, so its layers are on several meshes; "
                                 "include cubist/nn/pipeline/pipelined_mlp.hpp");
  using Base = detail::LayeredHandle<detail::AnyMlp<S, B, T>>;

 public:
  using typename Base::Activations;
  using typename Base::Kept;
  using typename Base::Mesh;

  /// Makes layers from sizes[0] to sizes[1] features, from there to sizes[2], and so on.
  /// @throws ShapeError for fewer than two sizes or one of 0, ArgumentError for options out of
  /// range
  MLP(const Mesh& mesh, const std::vector<std::size_t>& sizes, const MlpOptions& options = {})
      : Base{detail::make_mlp<S, B, T>(mesh, sizes, options, nullptr)}
  {
  }
  /// Makes the same network with LoRA: the layers that `lora` names get thin matrices A and B,
  /// which alone are trained; everything else is frozen (docs/finetuning.md). Without options,
  /// there is no LoRA. Only programs that call this constructor compile LoRA.
  MLP(const Mesh& mesh, const std::vector<std::size_t>& sizes, const MlpOptions& options,
      const std::optional<LoraOptions>& lora)
      : Base{detail::make_mlp<S, B, T>(
            mesh, sizes, options,
            detail::lora_request<T, AxisMesh<typename S::Axes, B>>(lora).get())}
  {
  }

  /// Returns Y, which the network owns and overwrites in the next `forward`.
  /// @param x Input or Activations. `backward` reads it, so the network keeps a copy, or the matrix
  /// itself if it is an rvalue.
  /// @throws ShapeError, MeshError if X does not fit
  template <class X>
  const Activations& forward(X&& x)
  {
    return this->network().forward(this->input(std::forward<X>(x)), nullptr);
  }
  /// Returns Y, which is in `kept`, so several forward passes may wait for their backward passes.
  template <class X>
  const Activations& forward(X&& x, Kept& kept)
  {
    return this->network().forward(this->input(std::forward<X>(x)), this->of(kept));
  }

  /// Computes the gradients of all parameters from the gradient of the last `forward`'s Y.
  /// @throws ShapeError, MeshError if dY does not match Y; ArgumentError if `forward` has not run
  void backward(const Activations& dy) { this->network().backward(dy, nullptr, false); }
  /// Computes the gradients of all parameters for the forward pass that filled `kept`.
  void backward(const Activations& dy, Kept& kept)
  {
    this->network().backward(dy, this->of(kept), false);
  }

  /// Also computes dX, the gradient of X, which takes one more product. The network owns it, and
  /// overwrites it in the next call.
  const Activations& backward_with_input(const Activations& dy)
  {
    return *this->network().backward(dy, nullptr, true);
  }
  const Activations& backward_with_input(const Activations& dy, Kept& kept)
  {
    return *this->network().backward(dy, this->of(kept), true);
  }
};

/// The instances of the compiled library (cubist/core/instances.hpp).
#define CUBIST_MLP_INSTANCES(prefix, S, B, T)                                                      \
  CUBIST_INSTANCE(prefix, detail::make_mlp_layer<S, B, T>)                                         \
  CUBIST_INSTANCE(prefix, detail::make_mlp<S, B, T>)
CUBIST_FOR_SCHEMES(CUBIST_MLP_INSTANCES)

}  // namespace cubist::CUBIST_ABI
