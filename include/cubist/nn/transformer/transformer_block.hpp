// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A block of a transformer, on any scheme: attention, then a feed-forward network on each token.
// A norm comes before each of the two, and the result is added to the norm's input.
//
//   X, A, Y (M, d) S::Input
//
//   A = X + dropout(attention(norm(X)))
//   Y = A + dropout(down(up(norm(A))))
//
// The steps of `forward`, with the names of their parameters:
//
//   1. attention_norm         LayerNorm, or RmsNorm
//   2. query, key, value      one product of S for all three (nn/dense/merged_linear.hpp)
//   3. head norms, rotation   of Q and K, in models that have them
//   4. softmax(Q K^T) V       on this rank's heads, with their keys and values in the cache, if any
//   5. output                 a product of S::Next, back to S::Input
//   6. A = X + dropout(…)
//   7. feed_forward_norm      as in 1
//   8. up                     Dense of S with its activation; or gate and up, a GatedLinear
//   9. down                   Dense of S::Next
//   10. Y = A + dropout(…)
//
// Elements that one rank sends: what its layers send; plan/transformer_cost.hpp adds it up.
// Source: Vaswani et al., "Attention Is All You Need", arXiv 1706.03762; Xiong et al., "On Layer
// Normalization in the Transformer Architecture", arXiv 2002.04745 (norm before each layer).

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "cubist/core/error.hpp"
#include "cubist/core/instances.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/gradients/parameter.hpp"
#include "cubist/model/pipeline_options.hpp"
#include "cubist/model/transformer_config.hpp"
#include "cubist/nn/attention/attention.hpp"
#include "cubist/nn/dense/activation.hpp"
#include "cubist/nn/dense/dense.hpp"
#include "cubist/nn/dense/gated_linear.hpp"
#include "cubist/nn/dense/linear.hpp"
#include "cubist/nn/dropout.hpp"
#include "cubist/nn/layer.hpp"
#include "cubist/nn/networks/any_layer.hpp"
#include "cubist/nn/norm/row_norm.hpp"
#include "cubist/nn/residual.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist::CUBIST_ABI
{

/// @tparam N LayerNorm or RmsNorm  @tparam Up Dense or GatedLinear of scheme S
template <SchemeType S, class B, RealScalar T, class N, class Up>
class TransformerBlock
{
 public:
  using Value = T;
  using Mesh = typename N::Mesh;
  using Input = typename N::Input;
  using Output = Input;
  /// The attention layer.
  using Attention = cubist::Attention<S, B, T>;
  /// The second layer of the feed-forward network.
  using Down = Dense<typename S::Next, B, T>;

  /// Makes a block of these layers.
  TransformerBlock(N attention_norm, Attention attention, N feed_forward_norm, Up up, Down down,
                   const Dropout& attention_dropout = Dropout{0},
                   const Dropout& feed_forward_dropout = Dropout{0})
      : attention_norm_{std::move(attention_norm)},
        attention_{std::move(attention)},
        add_attention_{attention_dropout},
        feed_forward_norm_{std::move(feed_forward_norm)},
        up_{std::move(up)},
        down_{std::move(down)},
        add_feed_forward_{feed_forward_dropout}
  {
  }

  /// What `forward` leaves for `backward`.
  struct Kept
  {
    typename N::Kept attention_norm;  ///< what the first norm keeps
    typename Attention::Kept attention;
    typename detail::ResidualSum<Input>::Kept add_attention;     ///< A
    typename N::Kept feed_forward_norm;                          ///< what the second norm keeps
    typename Up::Kept up;                                        ///< what the first layer keeps
    typename Down::Kept down;                                    ///< what the second layer keeps
    typename detail::ResidualSum<Input>::Kept add_feed_forward;  ///< Y
    bool has_output = false;  ///< whether `forward` has filled it
  };

  /// Returns Y, which is in `kept`.
  const Output& forward(const Input& x, const Pass& pass, Kept& kept)
  {
    kept.has_output = false;
    const auto& x_norm = attention_norm_.forward(x, pass, kept.attention_norm);        // 1
    const auto& attended = attention_.forward(x_norm, pass, kept.attention);           // 2 to 5
    const auto& a = add_attention_.forward(x, attended, pass, kept.add_attention);     // 6
    const auto& a_norm = feed_forward_norm_.forward(a, pass, kept.feed_forward_norm);  // 7
    const auto& up = up_.forward(a_norm, pass, kept.up);                               // 8
    const auto& down = down_.forward(up, pass, kept.down);                             // 9
    const auto& y = add_feed_forward_.forward(a, down, pass, kept.add_feed_forward);   // 10
    kept.has_output = true;
    return y;
  }

  /// Returns dX, which is in `kept`, or null if it is not wanted.
  /// @throws ArgumentError if `forward` has not run
  const Input* backward(const Input& x, const Output& dy, const BackwardPass<T, Mesh>& pass,
                        Kept& kept, bool wants_dx)
  {
    detail::require_forward(kept.has_output);
    const auto& [x_norm, a, a_norm, up] = std::tie(*kept.attention_norm.y, *kept.add_attention.y,
                                                   *kept.feed_forward_norm.y, *kept.up.y);
    const auto& d_down = add_feed_forward_.backward(dy, pass, kept.add_feed_forward);
    const auto& d_up = *down_.backward(up, d_down, pass, kept.down, true);
    const auto& d_a_norm = *up_.backward(a_norm, d_up, pass, kept.up, true);
    const auto* through_norm =
        feed_forward_norm_.backward(a, d_a_norm, pass, kept.feed_forward_norm, true);
    const auto& da = *add_feed_forward_.add_gradients(dy, through_norm, kept.add_feed_forward);

    const auto& d_attended = add_attention_.backward(da, pass, kept.add_attention);
    const auto* d_x_norm = attention_.backward(x_norm, d_attended, pass, kept.attention,
                                               wants_dx || !attention_norm_.is_frozen());
    if (!d_x_norm) return nullptr;
    const auto* dx = attention_norm_.backward(x, *d_x_norm, pass, kept.attention_norm, wants_dx);
    return add_attention_.add_gradients(da, dx, kept.add_attention);
  }

  /// Appends attention_norm.weight, attention.query.weight, …, feed_forward_norm.weight,
  /// feed_forward.up.weight, ……
  void append_parameters(Parameters<T, Mesh>& list, const std::string& prefix)
  {
    constexpr bool gated = !std::is_same_v<Up, Dense<S, B, T>>;  // gate.weight and up.weight
    attention_norm_.append_parameters(list, prefix + "attention_norm.");
    attention_.append_parameters(list, prefix + "attention.");
    feed_forward_norm_.append_parameters(list, prefix + "feed_forward_norm.");
    up_.append_parameters(list, prefix + (gated ? "feed_forward." : "feed_forward.up."));
    down_.append_parameters(list, prefix + "feed_forward.down.");
  }

  /// Makes attention keep its keys and values; see Attention::use_cache.
  void use_cache(std::size_t tokens) { attention_.use_cache(tokens); }

 private:
  N attention_norm_;
  Attention attention_;
  detail::ResidualSum<Input> add_attention_;
  N feed_forward_norm_;
  Up up_;
  Down down_;
  detail::ResidualSum<Input> add_feed_forward_;
};

/// How a transformer is made, and how it computes.
struct TransformerOptions
{
  /// The probability that an element of the embedding, or of what a layer adds to the stream, is
  /// dropped while training.
  double dropout = 0;
  /// The probability that an attention weight is dropped while training.
  double attention_dropout = 0;
  std::uint64_t seed = 0;
  Gathered gathered = Gathered::kept;
  Method method = Method::automatic;
  /// The number of blocks in a segment. Only the last output of each segment is kept; backward
  /// computes the others again, with the same bits. 0 keeps all. (docs/memory.md)
  std::size_t recompute = 0;
  /// The names of parameters that are frozen, with * for any characters, such as {"embedding.*",
  /// "layers.0.*"}. They have no gradient, optimizers have no state for them, and `backward` stops
  /// at the first trained block if all before it are frozen.
  std::vector<std::string> frozen = {};
  /// Whether the model is only evaluated. If so, it allocates no gradients, and activations for
  /// only one block, or in stages for two.
  bool inference = false;
  /// Context parallelism: the number of ranks that share each sequence, a divisor of the number of
  /// parts into which the scheme's output cuts rows. With 1, a rank has whole sequences, or
  /// padding. 0 stands for 1, unless there are fewer sequences than such parts; then it stands for
  /// the number that leaves the fewest rows on a rank. (docs/long_sequences.md)
  std::size_t context_parallel = 0;
  /// The stages and micro-batches of a model on a Pipeline (scheme/pipeline.hpp). The layers that
  /// are divided among the stages are the blocks; the embedding comes before the first, and norm
  /// and logits come after the last.
  PipelineOptions pipeline = {};
};

namespace detail
{

/// The activation of a feed-forward network without a gate.
[[nodiscard]] inline Activation activation_of(FeedForwardActivation activation)
{
  const Activation in_order[]{gelu_tanh, gelu, relu, silu};  // of the enumerators
  return in_order[static_cast<std::size_t>(activation)];
}

/// The number of random streams that a block uses.
inline constexpr std::size_t layer_indices = 16;

/// The standard deviation of initial weights.
inline constexpr double weight_deviation = 0.02;

/// The standard deviation of initial weights in layers whose output is added to the stream.
[[nodiscard]] inline double added_deviation(const TransformerConfig& config)
{
  return weight_deviation / std::sqrt(2.0 * static_cast<double>(config.layers));
}

/// Returns the options of a linear layer in block i.
/// @param offset the number of the layer's random stream in its block
[[nodiscard]] inline LinearOptions linear_options(const TransformerOptions& options, std::size_t i,
                                                  std::size_t offset, double deviation, bool bias)
{
  return {.bias = bias,
          .seed = options.seed,
          .index = 1 + layer_indices * i + offset,
          .gathered = options.gathered,
          .method = options.method,
          .initial_weights = Normal{deviation},
          .initial_bias = Zeros{},
          .gradients = !options.inference};
}

/// Returns the complete options of attention in block i.
/// @throws ShapeError if the rotated share of each head is less than two elements
[[nodiscard]] inline AttentionOptions
attention_options(const TransformerConfig& config, const TransformerOptions& options, std::size_t i)
{
  AttentionOptions attention{
      .heads = config.heads,
      .key_value_heads = config.key_value_heads,
      .head_size = config.head_size,
      .rotary_base = config.learned_positions ? 0 : config.rotary_base,
      .rotary_scaling = config.rotary_scaling,
      .head_norms = config.head_norms,
      .norm_epsilon = config.epsilon,
      .dropout = options.attention_dropout,
      .linear = linear_options(options, i, 0, weight_deviation, config.bias.query_key_value),
      .output_weights = Normal{added_deviation(config)},
      .output_bias = config.bias.attention_output};
  attention = attention.complete(config.width);
  if (!config.learned_positions)
  {
    attention.rotary_size = config.rotated_size(attention.head_size);
    require<ShapeError>(attention.rotary_size > 0, "got a rotary share of ", config.rotary_fraction,
                        " for heads of ", attention.head_size,
                        " elements, so none rotates and positions would have no effect; "
                        "use a larger share");
  }
  if (config.scale_by_layer) attention.scale /= static_cast<double>(i + 1);
  return attention;
}

/// Makes block i of a transformer. Weights are normal with a standard deviation of 0.02, or 0.02 /
/// sqrt(2 layers) in layers whose output is added to the stream, as in GPT-2.
/// @param storage  how linear layers of a model for inference store their weights
/// @pre the configuration is complete
template <SchemeType S, class B, RealScalar T>
[[nodiscard]] std::unique_ptr<
    AnyLayer<DistMatrix<T, typename S::Input, AxisMesh<typename S::Axes, B>>, T>>
make_block(const AxisMesh<typename S::Axes, B>& mesh, const TransformerConfig& config,
           const TransformerOptions& options, const WeightStorage<S, B, T>& storage, std::size_t i)
{
  const AttentionOptions attention = attention_options(config, options, i);
  const NormOptions norm{config.epsilon, !options.inference};
  const auto linear = [&](std::size_t offset, double deviation) {
    return linear_options(options, i, offset, deviation, config.bias.feed_forward);
  };
  const auto dropout = [&](std::size_t offset) {
    return Dropout{options.dropout, options.seed, 1 + layer_indices * i + offset};
  };
  const auto make = [&]<class N, class Up>(std::type_identity<N>, Up up) {
    using Block = TransformerBlock<S, B, T, N, Up>;
    using Down = Dense<typename S::Next, B, T>;
    Down down{typename Down::Linear{mesh, config.feed_forward, config.width,
                                    linear(6, added_deviation(config)), storage.next()}};
    Block block{N{mesh, config.width, norm},
                Attention<S, B, T>{mesh, config.width, attention, storage},
                N{mesh, config.width, norm},
                std::move(up),
                std::move(down),
                dropout(0),
                dropout(1)};
    return std::make_unique<LayerOf<typename Block::Input, Block>>(std::move(block));
  };
  if (config.kind == TransformerKind::gpt)
    return make(std::type_identity<LayerNorm<S, B, T>>{},
                Dense<S, B, T>{Linear<S, B, T>{mesh, config.width, config.feed_forward,
                                               linear(4, weight_deviation), storage},
                               activation_of(config.activation)});
  return make(std::type_identity<RmsNorm<S, B, T>>{},
              GatedLinear<S, B, T>{mesh, config.width, config.feed_forward,
                                   linear(4, weight_deviation), storage});
}

}  // namespace detail

/// The instances of the compiled library (cubist/core/instances.hpp).
#define CUBIST_BLOCK_INSTANCES(prefix, S, B, T) CUBIST_INSTANCE(prefix, detail::make_block<S, B, T>)
CUBIST_FOR_SCHEMES(CUBIST_BLOCK_INSTANCES)

}  // namespace cubist::CUBIST_ABI
