// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The interface of the network behind Transformer (transformer.hpp), which documents the functions.
// It depends only on the scheme, the backend and the scalar, so a program can call it without
// compiling the layers, which the compiled library contains.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "cubist/core/scalar.hpp"
#include "cubist/matrix/dist_matrix.hpp"
#include "cubist/mesh/mesh.hpp"
#include "cubist/model/transformer_config.hpp"
#include "cubist/nn/losses/loss_value.hpp"
#include "cubist/nn/networks/network.hpp"
#include "cubist/nn/transformer/token_batch.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// The tokens whose logits are computed.
enum class LogitsOf : std::uint8_t
{
  rows,        ///< all tokens, in the order of the rows of H
  tokens,      ///< all tokens, in the order of the batch
  last_tokens  ///< the last token of each sequence
};

/// The calls of a transformer, whether it is whole on a mesh or in stages.
template <NetworkScheme S, class B, RealScalar T>
class TransformerCalls : public Network<T, AxisMesh<typename S::Axes, B>>
{
 public:
  using typename Network<T, AxisMesh<typename S::Axes, B>>::Mesh;
  using Output = DistMatrix<T, typename S::Output, Mesh>;
  using Ids = std::span<const int>;

  [[nodiscard]] const TransformerConfig& config() const { return config_; }

  /// @param labels if there are none, the next tokens are the labels
  virtual LossValue compute_gradients(Ids ids, std::optional<Ids> labels, std::size_t sequence,
                                      double scale) = 0;
  [[nodiscard]] virtual double evaluate(Ids ids, std::optional<Ids> labels,
                                        std::size_t sequence) = 0;
  /// Returns logits without dropout.
  /// @param position  the position of each sequence's first token
  virtual const Output& predict(Ids ids, std::size_t sequence, std::size_t position,
                                LogitsOf which) = 0;
  virtual void use_cache(std::size_t tokens) = 0;

 protected:
  /// @pre the configuration is complete
  TransformerCalls(const Mesh& mesh, const TransformerConfig& config, std::uint64_t seed,
                   bool is_inference)
      : TransformerCalls::Network{mesh, seed, is_inference},
        config_{config}
  {
  }

  /// Returns a batch without its padding.
  [[nodiscard]] TokenBatch batch_of(Ids ids, std::optional<Ids> labels, std::size_t sequence)
  {
    if (!labels) return {ids, ids, sequence};
    return padding_.without_padding(this->mesh(), {ids, *labels, sequence}, config_.vocabulary);
  }

  TransformerConfig config_;

 private:
  PaddingRemover padding_;
};

/// The interface of a transformer that is whole on a mesh.
template <SchemeType S, class B, RealScalar T>
class AnyTransformer : public TransformerCalls<S, B, T>
{
 public:
  using typename TransformerCalls<S, B, T>::Ids;
  using typename TransformerCalls<S, B, T>::Output;

  [[nodiscard]] virtual std::unique_ptr<NetworkKept> make_kept() const = 0;
  /// @param kept  from make_kept(), or null for the model's own
  virtual const Output& forward(Ids ids, std::size_t sequence, NetworkKept* kept) = 0;
  virtual void backward(const Output& d_logits, NetworkKept* kept) = 0;

 protected:
  using TransformerCalls<S, B, T>::TransformerCalls;
};

}  // namespace cubist::CUBIST_ABI::detail
