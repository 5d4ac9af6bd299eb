// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A transformer of which a program knows the scheme, the backend and the scalar, but not how it is
// made: behind these functions are the layers, which the compiled library has.

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "cubist/core/scalar.hpp"
#include "cubist/dist/dist_matrix.hpp"
#include "cubist/dist/state.hpp"
#include "cubist/mesh/mesh.hpp"
#include "cubist/nn/losses/loss_value.hpp"
#include "cubist/nn/networks/any_layer.hpp"
#include "cubist/nn/parameter.hpp"
#include "cubist/nn/transformer/config.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist::CUBIST_ABI
{

struct TransformerOptions;

namespace detail
{

/// The functions of Transformer (transformer.hpp), which says what they do.
/// @tparam M the mesh  @tparam Y the logits
template <class T, class M, class Y>
class AnyTransformer
{
 public:
  using Ids = std::span<const int>;

  virtual ~AnyTransformer() = default;

  [[nodiscard]] virtual const TransformerConfig& config() const = 0;
  [[nodiscard]] virtual const M& mesh() const = 0;
  [[nodiscard]] virtual Parameters<T, M> parameters() = 0;
  virtual void append_parameters(Parameters<T, M>& list) = 0;
  [[nodiscard]] virtual Gradients<T, M>& gradients() = 0;
  virtual void append_state(State<T, M>& state, const std::string& prefix) = 0;
  virtual void set_training(bool on) = 0;
  [[nodiscard]] virtual bool training() const = 0;

  [[nodiscard]] virtual std::unique_ptr<AnyKept> make_kept() const = 0;
  [[nodiscard]] virtual bool awaits_backward(const AnyKept& kept) const = 0;
  /// @param kept  of make_kept(), or null for the model's own
  virtual const Y& forward(Ids ids, std::size_t sequence, AnyKept* kept) = 0;
  virtual void backward(const Y& d_logits, AnyKept* kept) = 0;
  /// @param labels  those of the next tokens, if there are none
  virtual LossValue compute_gradients(Ids ids, std::optional<Ids> labels, std::size_t sequence,
                                      double scale) = 0;
  [[nodiscard]] virtual double evaluate(Ids ids, std::optional<Ids> labels,
                                        std::size_t sequence) = 0;
  virtual const Y& next_logits(Ids ids, std::size_t sequence, std::size_t position) = 0;
  virtual void use_cache(std::size_t tokens) = 0;
  virtual void require_positions(std::size_t tokens) const = 0;
};

template <SchemeType S, class B, RealScalar T>
using AnyTransformerOf =
    AnyTransformer<T, AxisMesh<typename S::Axes, B>,
                   DistMatrix<T, typename S::Output, AxisMesh<typename S::Axes, B>>>;

/// @throws ShapeError for sizes that do not fit, ArgumentError for options out of range
template <SchemeType S, class B, RealScalar T>
std::unique_ptr<AnyTransformer<T, AxisMesh<typename S::Axes, B>,
                               DistMatrix<T, typename S::Output, AxisMesh<typename S::Axes, B>>>>
make_transformer(const AxisMesh<typename S::Axes, B>& mesh, const TransformerConfig& config,
                 const TransformerOptions& options);

}  // namespace detail

}  // namespace cubist::CUBIST_ABI
