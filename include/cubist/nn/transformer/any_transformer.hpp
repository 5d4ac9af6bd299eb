// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The functions of a transformer. A program that calls them knows the scheme, the backend and the
// scalar, but not how the model is made; the compiled library has the layers behind them.

#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include "cubist/core/scalar.hpp"
#include "cubist/dist/dist_matrix.hpp"
#include "cubist/mesh/mesh.hpp"
#include "cubist/nn/losses/loss_value.hpp"
#include "cubist/nn/networks/network.hpp"
#include "cubist/nn/transformer/transformer_config.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist::CUBIST_ABI
{

struct TransformerOptions;

namespace detail
{

/// What a program knows of a Transformer (transformer.hpp), which says what the functions do.
template <SchemeType S, class B, RealScalar T>
class AnyTransformer : public Network<T, AxisMesh<typename S::Axes, B>>
{
 public:
  using typename Network<T, AxisMesh<typename S::Axes, B>>::Mesh;
  using Output = DistMatrix<T, typename S::Output, Mesh>;
  using Ids = std::span<const int>;

  [[nodiscard]] virtual const TransformerConfig& config() const = 0;

  [[nodiscard]] virtual std::unique_ptr<NetworkKept> make_kept() const = 0;
  /// @param kept of make_kept(), or null for the model's own
  virtual const Output& forward(Ids ids, std::size_t sequence, NetworkKept* kept) = 0;
  virtual void backward(const Output& d_logits, NetworkKept* kept) = 0;
  /// @param labels those of the next tokens, if there are none
  virtual LossValue compute_gradients(Ids ids, std::optional<Ids> labels, std::size_t sequence,
                                      double scale) = 0;
  [[nodiscard]] virtual double evaluate(Ids ids, std::optional<Ids> labels,
                                        std::size_t sequence) = 0;
  virtual const Output& next_logits(Ids ids, std::size_t sequence, std::size_t position) = 0;
  virtual void use_cache(std::size_t tokens) = 0;
  virtual void require_positions(std::size_t tokens) const = 0;

 protected:
  using Network<T, AxisMesh<typename S::Axes, B>>::Network;
};

/// @throws ShapeError for sizes that do not fit, ArgumentError for options out of range
template <SchemeType S, class B, RealScalar T>
std::unique_ptr<AnyTransformer<S, B, T>> make_transformer(const AxisMesh<typename S::Axes, B>& mesh,
                                                          const TransformerConfig& config,
                                                          const TransformerOptions& options);

}  // namespace detail

}  // namespace cubist::CUBIST_ABI
