// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The elements that ranks send by collectives in a whole training step, on any scheme: in forward,
// loss, backward, the sums of gradients over replicas, and what a sharded optimizer or clipping
// add.
//
// A parameter of block b that P ranks hold, summed over p of them, sends for all N ranks
//
//   whole     2 (p-1)/p N b      an all_reduce of the gradient
//   sharded   2 N (P-1) piece    a reduce_scatter of the gradient and an all_gather of the value,
//                                piece being ceil(n / P) of the n rows of b, or columns of a bias
//
// Where all P replicas have equal gradients (in merged layers, for tied tables, or if p < P), a
// sharded parameter sends its all_reduce, and N (P-1) piece for the value. Buckets change the
// number of messages, but not of elements. Several micro-batches share one sum of gradients.
//
// Source: the headers of training/ and gradients/gradient_buckets.hpp.

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "cubist/plan/cost.hpp"
#include "cubist/plan/cutting.hpp"
#include "cubist/plan/model.hpp"
#include "cubist/plan/transformer_cost.hpp"
#include "cubist/plan/transformer_parts.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist::test
{

using cubist::detail::AxisTuple;
using cubist::detail::cut_product;
using cubist::detail::CutMatrix;
using cubist::detail::CutProduct;
using cubist::detail::replica_part;
using cubist::detail::tuple_of;

/// The number of elements that all ranks send in total in a training step.
struct StepWords
{
  std::uint64_t forward = 0;    ///< forward, including the loss
  std::uint64_t backward = 0;   ///< backward, without the sums of gradients
  std::uint64_t gradients = 0;  ///< sums of gradients over replicas
  std::uint64_t values = 0;     ///< values that a sharded optimizer gathers
  std::uint64_t clipping = 0;   ///< the global norm of gradients

  /// All elements sent in a step.
  [[nodiscard]] constexpr std::uint64_t total() const
  {
    return forward + backward + gradients + values + clipping;
  }
  friend constexpr bool operator==(const StepWords&, const StepWords&) = default;
};

/// The optional parts of a step.
struct StepOptions
{
  bool sharded = false;  ///< whether the optimizer is sharded
  bool clipped = false;  ///< whether gradients are clipped by their norm
  Gathered gathered = Gathered::kept;
};

/// Adds up the elements that parameters send.
/// @tparam A  the mesh's axes
template <class A>
class ParameterWords
{
 public:
  using Extents = typename A::Array;

  ParameterWords(const Extents& extents, bool sharded)
      : extents_{extents},
        ranks_{A::ranks(extents)},
        sharded_{sharded}
  {
  }

  /// Adds a gradient with layout `L` that is summed over the dimension that `Cut` cuts.
  /// @param is_parameter  whether the block belongs to one parameter, which may be sharded
  template <class L, class Cut>
  void add_gradient(Shape block, bool is_parameter = true)
  {
    const auto summed = tuple_of<A>(typename PendingAxes<L, Cut>::type{}, extents_);
    const auto all = replicas<L>();
    all_reduces_ += words(CallKind::all_reduce, summed.parts(), block.size());
    gradients_ +=
        sharded_ && is_parameter && summed.size() == all.size()
            ? words(CallKind::reduce_scatter, all.parts(), replica_part(block, all.parts()))
            : words(CallKind::all_reduce, summed.parts(), block.size());
  }
  /// Adds the value of a parameter with layout `L`.
  template <class L>
  void add_value(Shape block)
  {
    const std::size_t p = replicas<L>().parts();
    if (sharded_) values_ += words(CallKind::all_gather, p, replica_part(block, p));
  }
  template <class L, class Cut>
  void add(Shape block)
  {
    add_gradient<L, Cut>(block);
    add_value<L>(block);
  }

  /// The elements sent in a step, where the given `backward` has an all_reduce of each gradient.
  [[nodiscard]] StepWords step(std::uint64_t forward, std::uint64_t backward, bool clipped) const
  {
    return {.forward = forward,
            .backward = backward - all_reduces_,
            .gradients = gradients_,
            .values = values_,
            .clipping =
                clipped ? words(CallKind::all_reduce, static_cast<std::size_t>(ranks_), 1) : 0};
  }

 private:
  template <class L>
  [[nodiscard]] AxisTuple replicas() const
  {
    return tuple_of<A>(typename PendingAxes<L, A>::type{}, extents_);
  }
  [[nodiscard]] std::uint64_t words(CallKind c, std::size_t ranks, std::size_t count) const
  {
    const Transfer t{c, LayerMatrix::w, static_cast<int>(ranks), 1, count};
    return t.words_of_all(ranks_);
  }

  Extents extents_;
  int ranks_;
  bool sharded_;
  std::uint64_t all_reduces_ = 0;
  std::uint64_t gradients_ = 0;
  std::uint64_t values_ = 0;
};

/// Elements sent for the loss of a matrix cut like Y: two numbers for each row, and three numbers
/// from all ranks.
[[nodiscard]] constexpr std::uint64_t loss_words(const CutMatrix& y, std::size_t rows, int ranks)
{
  const auto n = static_cast<std::uint64_t>(ranks);
  const std::uint64_t replicas = n / y.rows.parts() / y.cols.parts();
  return 2 * (y.cols.parts() - 1) * replicas * 2 * rows + 2 * (n - 1) * 3;
}

/// Adds up the parameters of a transformer.
template <SchemeType S>
class TransformerParameters
{
 public:
  using A = typename S::Axes;

  TransformerParameters(const TransformerParts<S>& parts, bool sharded)
      : parts_{parts},
        words_{parts.extents(), sharded}
  {
  }

  [[nodiscard]] const ParameterWords<A>& add_all()
  {
    const auto& model = parts_.model();
    add_ends();
    for (std::size_t i = 0; i < model.layers; ++i)
    {
      for (const auto& p : parts_.products())
        if (p.is_next)
          add_linear<typename S::Next>(p);
        else
          add_linear<S>(p);
      add_norm(), add_norm();
      if (model.head_norms) add_head_norm(), add_head_norm();
    }
    add_norm();
    return words_;
  }

 private:
  /// Adds the tables of tokens and of positions.
  void add_ends()
  {
    using Table = Transposed<typename S::Weight>;
    using Positions = Layout<Rows<>, typename S::Input::ColAxes>;
    const auto& model = parts_.model();
    const auto e = parts_.cut(parts_.logits()).w.block;
    const Shape table{e.cols, e.rows};
    // A tied table's gradient is complete when the embedding adds its part, unless it adds terms.
    const bool has_terms = parts_.table_gradient().words > 0;
    words_.template add_gradient<Table, typename S::Output::RowAxes>(table,
                                                                     !model.tied || has_terms);
    if (has_terms && !model.tied)
      words_.template add_gradient<Table, typename S::Input::RowAxes>(table);
    for (int i = 0; i < (model.tied ? 1 : 2); ++i) words_.template add_value<Table>(table);
    if (!model.learned_positions) return;
    const std::size_t columns = parts_.stream().block.cols;
    const std::size_t length = parts_.batch().length;
    words_.template add_gradient<Positions, typename S::Input::RowAxes>({length, columns},
                                                                        length == model.positions);
    words_.template add_value<Positions>({model.positions, columns});
  }
  void add_norm()
  {
    using Vector = RowVector<typename S::Input>;
    for (std::size_t i = 0; i < parts_.model().norm_vectors(); ++i)
      words_.template add<Vector, typename S::Input::RowAxes>({1, parts_.stream().block.cols});
  }
  void add_head_norm()
  {
    using Weight = Layout<Rows<>, Cols<>>;
    using OfRows = typename PendingAxes<Weight, typename S::Output::RowAxes>::type;
    using Summed = typename PendingAxes<Weight, typename S::Output::ColAxes, OfRows>::type;
    words_.template add<Weight, Summed>({1, parts_.model().head_size});
  }
  template <SchemeType Of>
  void add_linear(const TransformerProduct& p)
  {
    using Bias = RowVector<typename Of::Output>;
    using Summed = typename Of::Output::RowAxes;
    const auto add_gradients = [&](const CutProduct& cut, bool is_parameter) {
      words_.template add_gradient<typename Of::Weight, Summed>(cut.w.block, is_parameter);
      if (p.has_bias)
        words_.template add_gradient<Bias, Summed>({1, cut.y.block.cols}, is_parameter);
    };
    const auto add_values = [&](const CutProduct& cut) {
      words_.template add_value<typename Of::Weight>(cut.w.block);
      if (p.has_bias) words_.template add_value<Bias>({1, cut.y.block.cols});
    };
    for (const auto& output : p.outputs)
    {
      const auto cut = cut_product<Of>(parts_.extents(), {p.size.m, output.n, p.size.k},
                                       {p.quanta.m, output.quantum, p.quanta.k});
      add_gradients(cut, true);
      add_values(cut);
    }
  }

  const TransformerParts<S>& parts_;
  ParameterWords<A> words_;
};

/// Elements sent in a step of an MLP with biases, with softmax_cross_entropy as its loss.
/// @param layers  as `mlp_layers` makes them
/// @pre S::fits(extents), the layers are valid
template <SchemeType S>
[[nodiscard]] StepWords step_words(const typename S::Axes::Array& extents,
                                   const std::vector<ProductSize>& layers,
                                   const StepOptions& options = {})
{
  using A = typename S::Axes;
  const int ranks = A::ranks(extents);
  ParameterWords<A> parameters{extents, options.sharded};
  std::uint64_t forward = 0;
  std::uint64_t backward = 0;
  const auto add = [&]<class Of>(std::size_t i) {
    using Summed = typename Of::Output::RowAxes;
    const Cost c = cost<Of>(extents, layers[i], options.gathered);
    const auto cut = cut_product<Of>(extents, layers[i]);
    const Shape bias{1, cut.y.block.cols};
    forward += c.forward.words_of_all(ranks);
    backward += (i == 0 ? c.backward_weight : c.backward).words_of_all(ranks) +
                Transfer{CallKind::all_reduce, LayerMatrix::w, static_cast<int>(cut.y.rows.parts()),
                         1, bias.size()}
                    .words_of_all(ranks);
    parameters.template add<typename Of::Weight, Summed>(cut.w.block);
    parameters.template add<RowVector<typename Of::Output>, Summed>(bias);
    if (i + 1 == layers.size()) forward += loss_words(cut.y, layers[i].m, ranks);
  };
  for (std::size_t i = 0; i < layers.size(); ++i)
    if (i % 2 == 0)
      add.template operator()<S>(i);
    else
      add.template operator()<typename S::Next>(i);
  return parameters.step(forward, backward, options.clipped);
}

/// Elements sent in a step of a transformer, except for rows of the table and of its gradient,
/// which depend on the tokens (nn/embedding/embedding.hpp).
/// @pre S::fits(extents), the model is valid
template <SchemeType S>
[[nodiscard]] StepWords step_words(const typename S::Axes::Array& extents, TokenBatch batch,
                                   const TransformerConfig& model, const StepOptions& options = {})
{
  const TransformerParts<S> parts{extents, batch, model};
  const auto words = transformer_words<S>(extents, batch, model, options.gathered);
  TransformerParameters<S> parameters{parts, options.sharded};
  return parameters.add_all().step(words.forward, words.backward + parts.position_gradients().words,
                                   options.clipped);
}

}  // namespace cubist::test
