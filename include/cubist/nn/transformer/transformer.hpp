// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A transformer that predicts the next token, of GPT-2's or Llama's kind, on any scheme and
// backend.
//
//   ids: B sequences of S tokens, token (b, s) at b S + s, the same on every rank    M = B S
//   H (M, d) S::Input    logits (M, V) S::Output
//
//   H = E(ids, :), plus the vectors of the positions if these are learned
//   H = block(H) for each layer                         transformer_block.hpp
//   logits = norm(H) E^T, or with their own table
//
// Rows are padded to whole sequences, and heads are whole, so that each rank has everything that
// its attention reads. The residual stream H is S::Input everywhere.
//
// If several ranks share a sequence (TransformerOptions::context_parallel), the rows of H are in
// the order of a SequenceCut (matrix/sequence_cut.hpp), and keys and values go around in a ring.
// The logits of `forward` and `backward` are still in the order of the tokens: H, (M, d), and its
// gradient are moved from one order to the other. `compute_gradients` and `evaluate` compute the
// loss in the order of the cut, which sends no more than with whole sequences.
//
// Elements that one rank sends: what the layers send; plan/transformer_cost.hpp adds it up. Labels
// that the caller passes add 2 (P-1)/P of one number.
// Source: Radford et al., "Language Models are Unsupervised Multitask Learners", 2019; Touvron et
// al., "LLaMA", arXiv 2302.13971; the cuts: Xu et al., "Optimus", arXiv 2104.05343, section 3.

#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include "cubist/core/instances.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/core/stored_weights.hpp"
#include "cubist/gradients/gradient_buckets.hpp"
#include "cubist/gradients/parameter.hpp"
#include "cubist/matmul/stored_product.hpp"
#include "cubist/mesh/stages.hpp"
#include "cubist/model/lora_options.hpp"
#include "cubist/model/transformer_config.hpp"
#include "cubist/nn/dense/lora.hpp"
#include "cubist/nn/layer.hpp"
#include "cubist/nn/losses/loss.hpp"
#include "cubist/nn/losses/next_token_loss.hpp"
#include "cubist/nn/networks/any_layer.hpp"
#include "cubist/nn/networks/layer_stack.hpp"
#include "cubist/nn/networks/network.hpp"
#include "cubist/nn/networks/network_handle.hpp"
#include "cubist/nn/transformer/any_transformer.hpp"
#include "cubist/nn/transformer/token_batch.hpp"
#include "cubist/nn/transformer/transformer_block.hpp"
#include "cubist/nn/transformer/transformer_ends.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

template <SchemeType S, class B, RealScalar T>
class TransformerNetwork final : public AnyTransformer<S, B, T>
{
  using Any = AnyTransformer<S, B, T>;
  using Ends = TransformerEnds<S, B, T>;
  using Hidden = typename Ends::Hidden;
  using Stack = LayerStack<Hidden, AnyLayer<Hidden, T>>;

 public:
  using typename Any::Ids;
  using typename Any::Mesh;
  using typename Any::Output;

  TransformerNetwork(const Mesh& mesh, const TransformerConfig& config,
                     const TransformerOptions& options, const WeightStorage<S, B, T>& storage,
                     LoraRequest<T, Mesh>* lora)
      : Any{mesh, config, options.seed, options.inference},
        context_parallel_{options.context_parallel},
        ends_{mesh, mesh, true, config, options},
        blocks_{"forward of block", "backward of block", options.recompute, 0, true},
        table_sums_{mesh, {.bytes = 0}}
  {
    first_trained_ = ends_.freeze(
        options, lora, config.layers, [&](std::size_t i) -> auto& {
          return blocks_.add(make_block<S, B, T>(mesh, config, options, storage, i));
        });
  }

  [[nodiscard]] std::unique_ptr<NetworkKept> make_kept() const override
  {
    return std::make_unique<Kept>();
  }

  const Output& forward(Ids ids, std::size_t sequence, NetworkKept* kept) override
  {
    return run(ids, this->next_pass(sequence), LogitsOf::tokens, of(kept), !this->is_inference_);
  }

  void backward(const Output& d_logits, NetworkKept* any) override
  {
    Kept& kept = of(any);
    this->require_training("backward");
    kept.blocks.require_forward();
    auto& reducer = this->begin_gradients();
    const BackwardPass<T, Mesh> pass{kept.pass, reducer};
    // If the embedding uses the same table, it adds its part of the gradient to the logits' part.
    // The sum of that over replicas is complete by then, or the embedding sums both parts.
    const bool tied = this->config_.tied;
    table_sums_.begin();
    auto& of_table = tied ? static_cast<GradientReducer<T, Mesh>&>(table_sums_) : reducer;
    const auto* summed_later = tied ? ends_.embedding().replicas(kept.input.embedding) : nullptr;
    const bool passes_blocks = first_trained_ < blocks_.layers().size();
    const Hidden* d =
        ends_.backward_logits(d_logits, pass, of_table, kept.output, passes_blocks, summed_later);
    const bool wants_dx = ends_.trains_input();
    d = blocks_.backward(d ? *d : *kept.output.h, reducer, kept.blocks, wants_dx, first_trained_);
    if (wants_dx)
    {
      if (tied) table_sums_.finish();
      ends_.backward_input(*d, pass, reducer, kept.input, kept.output.logits.left);
    }
    reducer.finish();
  }

  LossValue compute_gradients(Ids ids, std::optional<Ids> labels, std::size_t sequence,
                              double scale) override
  {
    this->require_training("compute_gradients");
    const TokenBatch batch = this->batch_of(ids, labels, sequence);
    Kept& kept = kept_.of_forward();
    const Output& y = run(batch.ids, this->next_pass(batch.sequence), LogitsOf::rows, kept, true);
    Output& dy = fit_like(d_logits_, y);
    LossValue loss = loss_of(y, batch, kept, &dy);
    scale_gradient(dy, scale);
    backward(dy, &kept);
    return loss;
  }

  [[nodiscard]] double evaluate(Ids ids, std::optional<Ids> labels, std::size_t sequence) override
  {
    const TokenBatch batch = this->batch_of(ids, labels, sequence);
    Kept& kept = kept_.for_evaluation();
    const Output& y = run(batch.ids, {.sequence = batch.sequence}, LogitsOf::rows, kept);
    return loss_of(y, batch, kept, nullptr);
  }

  const Output& predict(Ids ids, std::size_t sequence, std::size_t position,
                        LogitsOf which) override
  {
    const Pass pass{.training_step = {}, .sequence = sequence, .position = position};
    return run(ids, pass, which, kept_.for_evaluation());
  }

  void use_cache(std::size_t tokens) override
  {
    caches_ = tokens > 0;
    for (auto& block : blocks_.layers()) block->use_cache(tokens);
  }

  void append_parameters(Parameters<T, Mesh>& list) override
  {
    const std::size_t first = list.size();
    const auto append = [&](auto& layer, const std::string& prefix, bool = false) {
      layer.append_parameters(list, prefix);
    };
    ends_.for_each_before(append);
    for (std::size_t i = 0; i < blocks_.layers().size(); ++i)
      append(*blocks_.layers()[i], layer_name(i));
    ends_.for_each_after(append);
    exempt_from_decay(list, first);
  }

 private:
  /// Ranks share the cache of a prompt that has at least this many tokens, even if not asked to.
  static constexpr std::size_t shared_cache_tokens = 1024;

  struct Kept final : NetworkKept
  {
    [[nodiscard]] bool awaits_backward() const override { return blocks.awaits_backward(); }

    Pass pass;
    typename Ends::InputKept input;
    typename Stack::Kept blocks;
    typename Ends::OutputKept output;
  };
  Kept& of(NetworkKept* kept) { return kept ? static_cast<Kept&>(*kept) : kept_.of_forward(); }

  /// Computes the logits of the tokens that `which` selects.
  /// @param keeps  whether `backward` may follow
  const Output& run(Ids ids, const Pass& pass, LogitsOf which, Kept& kept, bool keeps = false)
  {
    kept.blocks.discard();
    const std::size_t sequences = count_sequences(ids.size(), pass.sequence);
    require_positions(this->config_, pass.position + pass.sequence);
    // Ranks do not share the few tokens that follow a prompt. The cache of a short prompt is small,
    // so they do not share it unless they are asked to.
    const bool shares = which != LogitsOf::last_tokens ||
                        (pass.position == 0 && (!caches_ || context_parallel_ > 1 ||
                                                pass.sequence >= shared_cache_tokens));
    kept.pass = shares ? ends_.cut_pass(sequences, pass) : pass;
    const Hidden& x = ends_.embed(ids, kept.pass, kept.input);
    const Hidden& h = keeps ? blocks_.forward(x, kept.pass, kept.blocks)
                            : blocks_.evaluate(x, kept.pass, kept.blocks);
    return ends_.logits(h, kept.pass, which, kept.output);
  }
  LossValue loss_of(const Output& logits, const TokenBatch& batch, const Kept& kept,
                    Output* gradient) const
  {
    return cut_next_token_loss<T>(logits, batch.ids, batch.labels, batch.sequence, kept.pass.cut,
                                  gradient);
  }

  std::size_t context_parallel_;
  bool caches_ = false;
  Ends ends_;
  Stack blocks_;
  GradientBuckets<T, Mesh> table_sums_;  // sums the logits' part of a tied table's gradient
  std::size_t first_trained_ = 0;        // the blocks before this one, and the input, are frozen
  KeptOfNetwork<Kept> kept_;
  std::optional<Output> d_logits_;
};

template <SchemeType S, class B, RealScalar T>
std::unique_ptr<AnyTransformer<S, B, T>>
make_transformer(const AxisMesh<typename S::Axes, B>& mesh, const TransformerConfig& config,
                 const TransformerOptions& options, const WeightStorage<S, B, T>& storage,
                 LoraRequest<T, AxisMesh<typename S::Axes, B>>* lora)
{
  return std::make_unique<TransformerNetwork<S, B, T>>(mesh, config, options, storage, lora);
}

template <PipelineScheme P, class B, RealScalar T>
class StagedTransformer;

/// The network that a Transformer owns.
template <NetworkScheme S, class B, RealScalar T>
struct TransformerBehind
{
  using type = AnyTransformer<S, B, T>;
  using Storage = WeightStorage<S, B, T>;
};
template <PipelineScheme P, class B, RealScalar T>
struct TransformerBehind<P, B, T>
{
  using type = StagedTransformer<P, B, T>;
  using Storage = WeightStorage<typename P::StageScheme, B, T>;
  static_assert(
      requires { sizeof(type); },
      "this Transformer is in stages, so its layers are on several meshes; include "
      "cubist/nn/transformer/pipelined_transformer.hpp");
};

}  // namespace detail

/// A transformer that is whole on each mesh of scheme S or, on a Pipeline, cut into stages, which
/// needs nn/transformer/pipelined_transformer.hpp. The parameters are embedding.weight,
/// positions.weight, layers.0.attention_norm.weight, …, norm.weight and, if it is not tied,
/// logits.weight; AdamW does not decay biases and norms. Every rank of the mesh makes each call.
template <NetworkScheme S, class B, RealScalar T>
class Transformer : public detail::NetworkHandle<typename detail::TransformerBehind<S, B, T>::type>
{
  using Network = typename detail::TransformerBehind<S, B, T>::type;
  using Storage = typename detail::TransformerBehind<S, B, T>::Storage;
  using Handle = detail::NetworkHandle<Network>;
  using Lora = detail::LoraRequest<T, typename detail::MeshOfStage<typename Handle::Mesh>::type>;

 public:
  using typename Handle::Kept;
  using typename Handle::Mesh;
  /// The matrices between blocks: rows of tokens, columns of features.
  using Hidden = DistMatrix<T, typename S::Input, Mesh>;
  /// The logits, which all stages receive.
  using Output = DistMatrix<T, typename S::Output, Mesh>;

  /// @throws ShapeError for sizes that do not fit; ArgumentError for options out of range, or for
  /// more pieces than blocks
  Transformer(const Mesh& mesh, const TransformerConfig& config,
              const TransformerOptions& options = {})
      : Handle{make(mesh, config, options, {}, nullptr)}
  {
  }
  /// Makes the same model with LoRA: the layers that `lora` names get thin matrices A and B, which
  /// alone are trained; everything else is frozen (docs/finetuning.md). A model with learned
  /// positions shares A where GPT-2's files have one matrix (LoraOptions::shared_input). Without
  /// options, there is no LoRA. Only programs that call this constructor or load_adapter() compile
  /// LoRA.
  Transformer(const Mesh& mesh, const TransformerConfig& config, const TransformerOptions& options,
              const std::optional<LoraOptions>& lora)
      : Handle{make(mesh, config, options, {}, request(lora, config).get())}
  {
  }
  /// Makes the same model, for inference, with linear layers that store their weights as `weights`
  /// says. Embeddings, the table of the logits, norms and biases are always stored as scalars. Only
  /// programs that call this constructor, or the next one, compile products with such weights.
  /// @throws as above, and ArgumentError unless options.inference, or on an engine without such
  /// products
  Transformer(const Mesh& mesh, const TransformerConfig& config, const TransformerOptions& options,
              StoredWeights weights)
      : Handle{make(mesh, config, options, weights, nullptr)}
  {
  }
  /// Makes the same model with LoRA beside the stored weights.
  Transformer(const Mesh& mesh, const TransformerConfig& config, const TransformerOptions& options,
              StoredWeights weights, const std::optional<LoraOptions>& lora)
      : Handle{make(mesh, config, options, weights, request(lora, config).get())}
  {
  }

  /// The configuration with which the model was made.
  [[nodiscard]] const TransformerConfig& config() const { return this->network().config(); }

  /// Computes the gradients of all parameters, multiplied by `scale`. Returns the loss of
  /// predicting each next token, which is the same on every rank.
  /// @throws ShapeError unless the ids are whole sequences of at least two tokens, ArgumentError
  /// for ids outside the vocabulary, for sequences longer than the model's positions, and for a
  /// model that was made for inference
  LossValue compute_gradients(std::span<const int> ids, std::size_t sequence, double scale = 1)
  {
    return this->network().compute_gradients(ids, {}, sequence, scale);
  }
  /// Computes the gradients of all parameters, multiplied by `scale`. Returns the loss of
  /// predicting the labels. Ids after a sequence's last label are not read, and tokens after the
  /// last label of all sequences are left out, so no value of the padding changes a bit of the
  /// result.
  /// @param labels one for each id, not shifted: the id, or -100 where the loss ignores it
  /// @throws ShapeError, ArgumentError as next_token_loss()
  LossValue compute_gradients(std::span<const int> ids, std::span<const int> labels,
                              std::size_t sequence, double scale = 1)
  {
    return this->network().compute_gradients(ids, labels, sequence, scale);
  }

  /// Returns the loss of predicting each next token, without dropout or gradients. It does not
  /// disturb a forward pass that waits for its backward pass.
  [[nodiscard]] double evaluate(std::span<const int> ids, std::size_t sequence)
  {
    return this->network().evaluate(ids, {}, sequence);
  }
  /// Returns the loss of predicting the labels, as compute_gradients() takes them, without dropout
  /// or gradients.
  [[nodiscard]] double evaluate(std::span<const int> ids, std::span<const int> labels,
                                std::size_t sequence)
  {
    return this->network().evaluate(ids, labels, sequence);
  }

  /// Returns, for each token, the logits of the next one, (B S, V), without dropout. The model owns
  /// them, and overwrites them in the next call. The call does not disturb a forward pass that
  /// waits for its backward pass.
  const Output& predict(std::span<const int> ids, std::size_t sequence)
  {
    return this->network().predict(ids, sequence, 0, detail::LogitsOf::tokens);
  }
  /// Returns the logits after each sequence's last token, (B, V), without dropout. The first token
  /// of each sequence is at `position`; with a cache, earlier calls have left the tokens before it.
  /// The call does not disturb a forward pass that waits for its backward pass.
  const Output& next_logits(std::span<const int> ids, std::size_t sequence,
                            std::size_t position = 0)
  {
    return this->network().predict(ids, sequence, position, detail::LogitsOf::last_tokens);
  }
  /// Keeps the keys and values of up to `tokens` tokens per sequence in the next calls of
  /// `next_logits`; 0 keeps none.
  void use_cache(std::size_t tokens) { this->network().use_cache(tokens); }

  /// @throws ArgumentError for more tokens per sequence than the model has positions, or than its
  /// sliding window holds
  void require_positions(std::size_t tokens) const { detail::require_positions(config(), tokens); }

  /// Returns, for each token, the logits of the next one. The model owns them, and overwrites them
  /// in the next `forward`. A model in stages has neither `forward` nor `backward`: they do not
  /// compile.
  /// @throws as compute_gradients(), but a sequence may have one token
  const Output& forward(std::span<const int> ids, std::size_t sequence)
  {
    return whole().forward(ids, sequence, nullptr);
  }
  /// Returns the logits, which are in `kept`, so several forward passes may wait for their backward
  /// passes.
  const Output& forward(std::span<const int> ids, std::size_t sequence, Kept& kept)
  {
    return whole().forward(ids, sequence, this->of(kept));
  }

  /// Computes the gradients of all parameters from the gradient of the logits that the last
  /// `forward` returned.
  /// @throws ShapeError, MeshError if the gradient does not match the logits; ArgumentError if
  /// `forward` has not run
  void backward(const Output& d_logits) { whole().backward(d_logits, nullptr); }
  /// Computes the gradients of all parameters for the forward pass that filled `kept`.
  void backward(const Output& d_logits, Kept& kept) { whole().backward(d_logits, this->of(kept)); }

 private:
  [[nodiscard]] static std::unique_ptr<Network> make(const Mesh& mesh,
                                                     const TransformerConfig& config,
                                                     const TransformerOptions& options,
                                                     const Storage& storage, Lora* lora)
  {
    if constexpr (is_pipeline<S>)
      return std::make_unique<Network>(mesh, config.completed(), options, storage, lora);
    else
      return detail::make_transformer<S, B, T>(mesh, config.completed(), options, storage, lora);
  }
  [[nodiscard]] static auto request(const std::optional<LoraOptions>& lora,
                                    const TransformerConfig& config)
  {
    return detail::lora_request<T, typename detail::MeshOfStage<Mesh>::type>(
        lora, config.learned_positions);
  }
  /// The network, unless it is in stages.
  [[nodiscard]] auto& whole()
  {
    static_assert(!is_pipeline<S>,
                  "a transformer in stages interleaves the forward and backward passes of "
                  "micro-batches, so it has neither alone; call compute_gradients(ids, length) for "
                  "a step, and predict(ids, length) for logits");
    return this->network();
  }
};

/// The instances of the compiled library (cubist/core/instances.hpp).
#define CUBIST_TRANSFORMER_INSTANCES(prefix, S, B, T)                                              \
  CUBIST_INSTANCE(prefix, detail::make_transformer<S, B, T>)
CUBIST_FOR_SCHEMES(CUBIST_TRANSFORMER_INSTANCES)

}  // namespace cubist::CUBIST_ABI
