// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Lists the parts of a transformer that send or multiply, for any scheme, from the scheme's
// layouts: its products, as sizes with their quanta, and its sums over rows and columns.
//
//   X, residual stream (M, d) S::Input    M = B S: sequences of S tokens, row b S + s
//   queries, keys, values (M, N) S::Output    hidden activations (M, F) S::Output
//
// Rows are padded to whole sequences on every rank, columns of Q, K and V to whole groups of heads,
// other columns to the mesh's quantum. Per-row numbers are sent only for valid rows.
//
// If ranks share sequences, rows are those of a SequenceCut (matrix/sequence_cut.hpp), and all of
// them are valid. Names with `words` count elements that are sent.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <numeric>
#include <type_traits>

#include "cubist/gradients/table_gradient.hpp"
#include "cubist/matrix/layout.hpp"
#include "cubist/matrix/sequence_cut.hpp"
#include "cubist/plan/cost.hpp"
#include "cubist/plan/cutting.hpp"
#include "cubist/plan/lora_cost.hpp"
#include "cubist/plan/model.hpp"
#include "cubist/plan/work.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist::CUBIST_ABI
{

/// The number of columns of a product's output, and their quantum.
struct OutputColumns
{
  std::size_t n = 0;        ///< columns of the output
  std::size_t quantum = 0;  ///< columns are padded to a multiple of this
};

/// One product of a transformer, as a linear layer.
struct TransformerProduct
{
  ProductSize size;       // the sizes of forward; n includes the padding between merged outputs
  std::size_t n = 0;      // n without that padding
  ProductQuanta quanta;   // 0 stands for the mesh's quantum
  bool is_next = false;   // a product of S::Next
  bool has_bias = false;  ///< whether a bias is added
  Op w_op = Op::none;     // transpose if the weights are stored (N, K)
  Few<OutputColumns, 3> outputs = {};  // one output, or several that are merged

  /// Whether it merges several weights.
  [[nodiscard]] bool is_merged() const { return outputs.size() > 1; }
};

/// An all_reduce of numbers for each row of a matrix, or for each column.
struct LineSum
{
  Transfer transfer;        // the transfer of a rank without padding
  std::uint64_t words = 0;  // the elements that all ranks send
};

/// How the ranks share attention.
struct AttentionShare
{
  std::size_t heads = 0;        // the query heads of the rank that has the most
  std::size_t sequences = 0;    // the sequences of the rank that has the most
  std::size_t row_parts = 1;    // the parts into which rows are cut
  std::size_t col_parts = 1;    // the parts into which heads are cut
  std::size_t rows_in_use = 1;  // row parts with a sequence
  std::size_t cols_in_use = 1;  // column parts with a head
};

/// The parts of a transformer on a mesh of scheme `S`.
/// @pre S::fits(extents)
template <SchemeType S>
class TransformerParts
{
 public:
  /// The axes of the scheme.
  using A = typename S::Axes;
  using Extents = typename A::Array;

  /// Makes the parts for one mesh, batch and model, and completes the model.
  /// @throws what TransformerConfig::completed() throws
  /// @param context_parallel the number of ranks that share a sequence, as in TransformerOptions
  TransformerParts(const Extents& extents, TokenBatch batch, const TransformerConfig& model,
                   std::size_t context_parallel = 0)
      : extents_{extents},
        batch_{batch},
        model_{model.completed()},
        ranks_{A::ranks(extents)},
        quantum_{S::quantum(extents)},
        head_pieces_{head_pieces(extents)},
        cut_{choose_cut(batch.sequences, batch.length,
                        row_parts<typename S::Output, A>(extents, quantum_), context_parallel)},
        rows_{cut_.is_cut() ? quantum_ : batch.length * quantum_},
        kv_quantum_{std::lcm(quantum_, model_.head_size * head_pieces_)},
        q_quantum_{model_.group() * kv_quantum_}
  {
  }

  [[nodiscard]] const Extents& extents() const { return extents_; }
  /// The tokens of a step.
  [[nodiscard]] TokenBatch batch() const { return batch_; }
  /// The complete configuration.
  [[nodiscard]] const TransformerConfig& model() const { return model_; }
  [[nodiscard]] int ranks() const { return ranks_; }
  /// How ranks share sequences.
  [[nodiscard]] const SequenceCut& sequence_cut() const { return cut_; }
  /// The number of rows of the residual stream.
  [[nodiscard]] std::size_t tokens() const { return cut_.is_cut() ? cut_.rows() : batch_.tokens(); }

  /// Returns the products of a block: Q, K, V; attention's output; up, with the gate; down.
  [[nodiscard]] std::array<TransformerProduct, 4> products() const
  {
    const std::size_t d = model_.width;
    const std::size_t q = model_.query_width();
    const OutputColumns kv{model_.key_value_width(), kv_quantum_};
    const OutputColumns f{model_.feed_forward, model_.is_gated() ? quantum_ : 0};
    const LayerBiases& bias = model_.bias;
    return {product(d, {{q, q_quantum_}, kv, kv}, bias.query_key_value),
            next_product(q, q_quantum_, bias.attention_output),
            model_.is_gated() ? product(d, {f, f}, bias.feed_forward)
                              : product(d, {f}, bias.feed_forward),
            next_product(f.n, 0, bias.feed_forward)};
  }
  /// Returns the product that computes the logits.
  [[nodiscard]] TransformerProduct logits() const
  {
    auto p = product(model_.width, {{model_.vocabulary, 0}}, false);
    p.w_op = Op::transpose;
    return p;
  }

  /// Returns the matrices of a product of forward.
  [[nodiscard]] detail::CutProduct cut(const TransformerProduct& p) const
  {
    return p.is_next ? detail::cut_product<typename S::Next>(extents_, p.size, p.quanta)
                     : detail::cut_product<S>(extents_, p.size, p.quanta);
  }
  /// Returns the cost of a product by collectives, without its bias.
  [[nodiscard]] Cost cost(const TransformerProduct& p, Gathered policy) const
  {
    return p.is_next ? cubist::cost<typename S::Next>(extents_, p.size, policy, p.quanta)
                     : cubist::cost<S>(extents_, p.size, policy, p.quanta);
  }
  /// The sum of the gradient of a product's bias.
  [[nodiscard]] LineSum bias_sum(const TransformerProduct& p) const
  {
    const auto y = cut(p).y;
    return line_sum(p.has_bias ? y.block.cols : 0, y.rows);
  }

  /// Returns a matrix cut and padded like the residual stream.
  [[nodiscard]] detail::CutMatrix stream() const
  {
    return detail::cut_matrix<A, typename S::Input>(LayerMatrix::x, {tokens(), model_.width},
                                                    extents_, {rows_, quantum_});
  }
  /// The sum that a norm sends in one message of forward: one number for each row. LayerNorm sends
  /// two such messages.
  [[nodiscard]] LineSum norm_sum() const { return row_sum(stream(), 1); }
  /// The sums of a norm's per-row numbers, in forward and in backward.
  [[nodiscard]] LineSum norm_statistics() const { return row_sum(stream(), model_.norm_vectors()); }
  /// The sum of the gradients of a norm's weight and bias.
  [[nodiscard]] LineSum norm_gradients() const
  {
    const auto x = stream();
    return line_sum(model_.norm_vectors() * x.block.cols, x.rows);
  }
  /// The sum of the gradient of the queries' norm, or of the keys' norm.
  [[nodiscard]] LineSum head_norm_gradient() const
  {
    const auto y = cut(products()[0]).y;
    auto axes = y.rows;
    for (const auto& axis : y.cols) axes.add(axis);
    return line_sum(model_.head_norms ? model_.head_size : 0, axes);
  }
  /// The two sums of the loss, with one number for each row.
  [[nodiscard]] LineSum loss_statistics() const { return row_sum(cut(logits()).y, 1); }
  /// The sum over all ranks of the mean of the loss and the checksums of the labels.
  [[nodiscard]] LineSum loss_mean() const
  {
    detail::AxisTuple all;
    all.add({0, ranks_, 1});
    return line_sum(3, all);
  }
  /// The sum of the terms of the embedding's gradient over replicas of its table; of nothing, if
  /// the ranks exchange sums of rows instead (gradients/table_gradient.hpp).
  [[nodiscard]] LineSum table_gradient() const
  {
    if (!all_reduces_table()) return line_sum(0, {});
    return line_sum(cut(logits()).w.block.size(), table_replicas());
  }
  /// An upper bound for the elements that all ranks send to look up rows.
  [[nodiscard]] std::uint64_t embedding_words() const
  {
    return ranks_ == 1 ? 0
                       : embedding_rows() * stream().block.cols * static_cast<std::size_t>(ranks_);
  }
  /// An upper bound for the elements of the sums of rows that all ranks send in backward.
  [[nodiscard]] std::uint64_t embedding_gradient_words() const
  {
    const auto table = cut(logits()).w;  // (d, V)
    const std::size_t copies = static_cast<std::size_t>(ranks_) / table.cols.parts();
    return ranks_ == 1 ? 0 : embedding_rows() * table.block.rows * copies * embedding_blocks();
  }
  /// The number of elements that a rank reserves for messages with rows of the table and with sums
  /// of gradients: those that it sends, including those that it sends to itself in backward, and
  /// those that it receives.
  [[nodiscard]] std::size_t embedding_workspace() const
  {
    const auto h = stream();
    const auto table = cut(logits()).w;
    const std::size_t rows = std::min(h.block.rows, table.block.cols);
    const std::size_t h_cols = std::min(h.block.cols, model_.width);
    const std::size_t table_cols = std::min(table.block.rows, model_.width);
    // Some rank's columns of H differ from its columns of the table.
    const std::size_t own =
        h.cols.parts() > 1 && table.rows.parts() > 1 ? 0 : std::min(h_cols, table_cols);
    const std::size_t forward = rows * (table.cols.parts() * h_cols - own);
    const std::size_t backward = rows * (embedding_blocks() * table_cols - own);
    return std::max(forward, backward + (backward == 0 ? 0 : rows * own)) +
           std::max(std::min(h.block.rows * h_cols, forward), backward);
  }
  /// The sum of the gradients of positions.
  [[nodiscard]] LineSum position_gradients() const
  {
    const auto x = stream();
    return line_sum(model_.learned_positions ? batch_.length * x.block.cols : 0, x.rows);
  }

  /// The number of elements of keys and values that all ranks send in forward or in backward if
  /// ranks share sequences.
  [[nodiscard]] std::uint64_t ring_words(bool backward) const
  {
    if (!cut_.is_cut()) return 0;
    const auto attended = cut(products()[1]).x;
    const auto replicas =
        static_cast<std::uint64_t>(ranks_) / attended.rows.parts() / attended.cols.parts();
    return replicas * attended.rows.parts() *
           cubist::ring_words(cut_, model_.key_value_width(), backward);
  }

  /// Returns how the ranks share attention.
  [[nodiscard]] AttentionShare attention() const
  {
    const auto attended = cut(products()[1]).x;
    const std::size_t parts = attended.cols.parts();
    // Padding heads count, too.
    const std::size_t heads =
        padded(model_.key_value_width(), kv_quantum_) / parts / model_.head_size;
    const std::size_t sequences =
        cut_.is_cut() ? cut_.together : attended.block.rows / batch_.length;
    return {.heads = model_.group() * std::min(heads, model_.key_value_heads),
            .sequences = std::min(sequences, batch_.sequences),
            .row_parts = attended.rows.parts(),
            .col_parts = parts,
            .rows_in_use = cut_.parts * ceil_div(batch_.sequences, sequences),
            .cols_in_use = ceil_div(model_.key_value_heads, heads)};
  }

  /// The number of pieces in which the columns of merged outputs are interleaved.
  [[nodiscard]] std::size_t head_pieces() const { return head_pieces_; }

 private:
  /// Whether an all_reduce completes the embedding's gradient.
  [[nodiscard]] bool all_reduces_table() const
  {
    const auto h = stream();
    return detail::all_reduces_table(model_.vocabulary, tokens(), h.rows.parts(), h.block.rows);
  }
  /// The axes along which replicas of the embedding's table look up different rows.
  [[nodiscard]] detail::AxisTuple table_replicas() const
  {
    using Pending = typename PendingAxes<typename S::Weight, typename S::Input::RowAxes>::type;
    return detail::tuple_of<A>(Pending{}, extents_);
  }
  /// The number of blocks of dH whose sums a replica of the table adds up.
  [[nodiscard]] std::size_t embedding_blocks() const
  {
    return stream().rows.parts() / (all_reduces_table() ? table_replicas().parts() : 1);
  }
  /// The maximum number of distinct ids in a block of H.
  [[nodiscard]] std::size_t embedding_rows() const
  {
    return std::min(stream().block.rows, model_.vocabulary);
  }
  /// The number of pieces in which the columns of merged outputs are interleaved
  /// (nn/dense/merged_linear).
  [[nodiscard]] static std::size_t head_pieces(const Extents& extents)
  {
    const auto parts = [&]<class... Axis>(Cols<Axis...> axes) {
      return detail::tuple_of<A>(axes, extents).parts();
    };
    return std::lcm(parts(typename S::Weight::ColAxes{}), parts(typename S::Output::ColAxes{}));
  }
  [[nodiscard]] std::size_t padded(std::size_t n, std::size_t quantum) const
  {
    return head_pieces_ == 1 ? n : pad(n, std::lcm(quantum, head_pieces_));
  }

  /// Returns a product of S with X of k columns, for one output or several merged ones.
  [[nodiscard]] TransformerProduct
  product(std::size_t k, std::initializer_list<OutputColumns> outputs, bool has_bias) const
  {
    TransformerProduct p{
        .size = {.m = tokens(), .n = 0, .k = k}, .quanta = {.m = rows_}, .has_bias = has_bias};
    for (const auto& output : outputs)
    {
      p.size.n += outputs.size() == 1 ? output.n : padded(output.n, output.quantum);
      p.n += output.n;
      p.outputs.add(output);
    }
    return p;
  }
  /// Returns a product of S::Next, back to the residual stream.
  [[nodiscard]] TransformerProduct next_product(std::size_t k, std::size_t k_quantum,
                                                bool has_bias) const
  {
    auto p = product(k, {{model_.width, 0}}, has_bias);
    p.quanta.k = k_quantum;
    p.is_next = true;
    return p;
  }

  [[nodiscard]] LineSum line_sum(std::size_t count, const detail::AxisTuple& axes) const
  {
    const Transfer t{CallKind::all_reduce, LayerMatrix::w, static_cast<int>(axes.parts()),
                     axes.innermost().stride, count};
    return {t, t.words_of_all(ranks_)};
  }
  /// Returns a sum over rows. Blocks without rows send nothing; other blocks send only their valid
  /// rows.
  [[nodiscard]] LineSum row_sum(const detail::CutMatrix& m, std::size_t values) const
  {
    LineSum sum = line_sum(values * m.block.rows, m.cols);
    sum.transfer.matrix = LayerMatrix::x;
    const auto replicas = static_cast<std::uint64_t>(ranks_) / m.rows.parts() / m.cols.parts();
    sum.words = 2 * (m.cols.parts() - 1) * replicas * values * tokens();
    return sum;
  }

  Extents extents_;
  TokenBatch batch_;
  TransformerConfig model_;
  int ranks_;
  std::size_t quantum_;
  std::size_t head_pieces_;
  SequenceCut cut_;
  std::size_t rows_;        // the quantum of rows
  std::size_t kv_quantum_;  // the quantum of the columns of K and of V
  std::size_t q_quantum_;
};

namespace detail
{

/// Whether layers that share a product also share LoRA's A.
template <SchemeType S>
[[nodiscard]] bool shares_a(const TransformerParts<S>& parts)
{
  return parts.model().learned_positions;
}

/// Calls f(cost) for LoRA's matrices beside a product, and g(cost) for each of its outputs.
template <SchemeType S, class F, class G>
void for_lora(const TransformerParts<S>& parts, const TransformerProduct& p, std::size_t rank, F f,
              G g)
{
  const std::size_t pairs = shares_a(parts) ? 1 : p.outputs.size();
  const auto with = [&]<class Of>(std::type_identity<Of>) {
    f(lora_cost<Of>(parts.extents(), p.size, rank, p.quanta, pairs));
    for (const auto& output : p.outputs)
      g(lora_cost<Of>(parts.extents(), {p.size.m, output.n, p.size.k}, rank,
                      {p.quanta.m, output.quantum, p.quanta.k}));
  };
  p.is_next ? with(std::type_identity<typename S::Next>{}) : with(std::type_identity<S>{});
}

}  // namespace detail

}  // namespace cubist::CUBIST_ABI
