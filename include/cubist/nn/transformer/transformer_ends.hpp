// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The layers of a transformer before its first block and after its last.
//
//   H = E(ids, :), plus the vectors of the positions if these are learned, with dropout
//   logits = norm(H) E^T, or with another table
//
// In a model in stages, E and the positions are on the mesh of the first stage, and norm and table
// on the mesh of the last; a rank that is on neither has empty ones. A tied table is on both.

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "cubist/core/scalar.hpp"
#include "cubist/gradients/gradient_reducer.hpp"
#include "cubist/gradients/parameter.hpp"
#include "cubist/matrix/sequence_cut.hpp"
#include "cubist/model/transformer_config.hpp"
#include "cubist/nn/dropout.hpp"
#include "cubist/nn/embedding/embedding.hpp"
#include "cubist/nn/embedding/position_embedding.hpp"
#include "cubist/nn/embedding/row_lookup.hpp"
#include "cubist/nn/layer.hpp"
#include "cubist/nn/networks/any_layer.hpp"
#include "cubist/nn/norm/row_norm.hpp"
#include "cubist/nn/parameter_names.hpp"
#include "cubist/nn/transformer/any_transformer.hpp"
#include "cubist/nn/transformer/logits.hpp"
#include "cubist/nn/transformer/transformer_block.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Exempts a transformer's biases and norms from AdamW's weight decay.
/// @param first  the index of the transformer's first parameter in the list
template <class T, class M>
void exempt_from_decay(Parameters<T, M>& list, std::size_t first)
{
  for (std::size_t i = first; i < list.size(); ++i)
    list[i].decays = !list[i].name.ends_with("bias") && !list[i].name.ends_with("norm.weight");
}

template <SchemeType S, class B, RealScalar T>
class TransformerEnds
{
 public:
  using Embedding = cubist::Embedding<S, B, T>;
  using Logits = cubist::Logits<S, B, T>;
  using Hidden = typename Logits::Input;
  using Output = typename Logits::Output;
  using Mesh = typename Hidden::Mesh;
  using Communicator = typename Mesh::Communicator;

  /// @param first, last  the meshes of the first and the last block
  /// @param are_one  whether both are the same mesh, so that one tied table is enough
  TransformerEnds(const Mesh& first, const Mesh& last, bool are_one,
                  const TransformerConfig& config, const TransformerOptions& options)
      : tied_{config.tied},
        context_parallel_{options.context_parallel},
        dropout_{options.dropout, options.seed, 0},
        embedding_{first, config.vocabulary, config.width, table_options(options, 0)},
        norm_{make_norm(last, config, !options.inference)},
        logits_{options.gathered, options.method}
  {
    const std::size_t after = layer_indices * config.layers + 1;
    if (config.learned_positions)
      positions_.emplace(first, config.positions, config.width, table_options(options, after));
    if (!config.tied || !are_one)
      table_.emplace(last, config.vocabulary, config.width,
                     table_options(options, config.tied ? 0 : after + 1));
  }

  /// Makes the blocks, gives them the matrices of LoRA unless `lora` is null, and freezes
  /// parameters in them and here, as the options say. Returns the first block that `backward` has
  /// to reach.
  /// @param make make(i) makes block i and returns it
  /// @throws ArgumentError for a name that matches no parameter or layer
  template <class Make>
  std::size_t freeze(const TransformerOptions& options, LoraRequest<T, Mesh>* lora,
                     std::size_t blocks, Make make)
  {
    Freezing freezing{options.frozen};
    freezing.freeze(embedding_, "embedding.", lora);
    if (positions_) freezing.freeze(*positions_, "positions.", lora);
    if (table_) freezing.freeze(*table_, tied_ ? "embedding." : "logits.", lora);
    freezing.freeze(*norm_, "norm.", lora);
    const std::size_t first = freezing.freeze_layers(blocks, "layers.", make, lora);
    return trains_input() ? 0 : first;
  }
  /// Whether the embedding or the positions are trained.
  [[nodiscard]] bool trains_input() const
  {
    return !embedding_.is_frozen() || (positions_ && !positions_->is_frozen());
  }

  /// Calls f(layer, prefix, is_on_last) for the layers before the first block. `is_on_last` says
  /// whether the last stage has the layer, too.
  template <class F>
  void for_each_before(F f)
  {
    const bool has_second = has_two_tables() && table_->table().mesh().active();
    f(has_second ? *table_ : embedding_, "embedding.", has_two_tables());
    if (positions_) f(*positions_, "positions.", false);
  }
  /// Calls f(layer, prefix) for the layers after the last block.
  template <class F>
  void for_each_after(F f)
  {
    f(*norm_, "norm.");
    if (!tied_) f(*table_, "logits.");
  }

  /// Whether the first and the last stage each have a copy of a tied table.
  [[nodiscard]] bool has_two_tables() const { return tied_ && table_; }
  /// The table of the logits, and its gradient.
  [[nodiscard]] auto& table() { return logit_embedding().table(); }
  [[nodiscard]] auto& table_gradient() { return logit_embedding().table_gradient(); }
  [[nodiscard]] Embedding& embedding() { return embedding_; }

  /// Returns the pass, with the cut of these sequences if ranks share them.
  [[nodiscard]] Pass cut_pass(std::size_t sequences, Pass pass)
  {
    const Mesh& mesh = embedding_.table().mesh();
    if (context_parallel_ != 1)
      pass.cut = choose_cut(
          sequences, pass.sequence,
          row_parts<typename S::Output, typename S::Axes>(mesh.extents(), mesh.quantum()),
          context_parallel_);
    return pass;
  }

  /// What the layers before the first block keep for backward_input().
  struct InputKept
  {
    std::vector<int> ids;  // the id of each row of H
    typename Embedding::Kept embedding;
    std::optional<Hidden> dh;
  };

  /// Returns the input H of the first block.
  [[nodiscard]] const Hidden& embed(std::span<const int> ids, const Pass& pass, InputKept& kept)
  {
    if (pass.cut.is_cut())
      pass.cut.arrange(ids, kept.ids,
                       [&](std::size_t b) { return ids[(b + 1) * pass.sequence - 1]; });
    else
      kept.ids.assign(ids.begin(), ids.end());
    Hidden& h = embedding_.forward(kept.ids, pass, kept.embedding);
    if (positions_) positions_->forward(h, pass);
    if (pass.training_step) dropout_.apply(h, *pass.training_step, pass.cut);
    return h;
  }

  /// Computes the gradients of the embedding and the positions from that of H. If the logits use
  /// the embedding's table, the embedding adds its part to theirs.
  /// @param of_table  takes the gradient of the embedding
  /// @param terms  the ranks that have the other terms of the logits' part, as for
  /// Embedding::backward
  void backward_input(const Hidden& dh, const BackwardPass<T, Mesh>& pass,
                      GradientReducer<T, Mesh>& of_table, InputKept& kept,
                      const Communicator* terms = nullptr)
  {
    const Hidden* d = &dh;
    if (pass.training_step && dropout_.probability() > 0)
    {
      dropout_.apply(dh, fit_like(kept.dh, dh), *pass.training_step, pass.cut);
      d = &*kept.dh;
    }
    if (positions_) positions_->backward(*d, pass);
    embedding_.backward(kept.ids, *d, BackwardPass<T, Mesh>{pass, of_table}, kept.embedding,
                        tied_ && !table_, terms);
  }

 private:
  /// The rows of H whose tokens' logits are wanted, if ranks share sequences.
  struct PickedRows
  {
    SequenceCut cut;
    LogitsOf which;
    RowLookup<T, Mesh> lookup;
    std::vector<int> rows = {};  // the row of each token
  };

 public:
  /// What the layers after the last block keep for backward_logits().
  struct OutputKept
  {
    std::optional<PickedRows> picked;
    std::optional<Hidden> tokens;  // the picked rows of H
    std::unique_ptr<AnyKept> norm;
    typename Logits::Kept logits;
    const Hidden* h = nullptr;           // the norm's input
    const Hidden* normalized = nullptr;  // the norm's output
    std::optional<Hidden> dh;
  };

  /// Returns the logits of H, the output of the last block.
  [[nodiscard]] const Output& logits(const Hidden& h, const Pass& pass, LogitsOf which,
                                     OutputKept& kept)
  {
    if (!kept.norm) kept.norm = norm_->make_kept();
    kept.h = &pick(h, pass, which, kept);
    kept.normalized = &norm_->forward(*kept.h, {}, *kept.norm);
    return logits_.forward(*kept.normalized, table(), kept.logits);
  }

  /// Computes the gradients of norm and table from that of the logits. Returns the gradient of H,
  /// or null if it is not wanted.
  /// @param summed_later  as for Logits::backward
  /// @pre the logits are those of all rows or all tokens
  const Hidden* backward_logits(const Output& d_logits, const BackwardPass<T, Mesh>& pass,
                                GradientReducer<T, Mesh>& of_table, OutputKept& kept, bool wants_dh,
                                const Communicator* summed_later = nullptr)
  {
    const Hidden& dx = logits_.backward(*kept.normalized, table(), d_logits, table_gradient(),
                                        of_table, kept.logits, summed_later);
    const Hidden* d = norm_->backward(*kept.h, dx, pass, *kept.norm, wants_dh);
    if (!d || !kept.tokens || kept.h != &*kept.tokens) return d;
    Hidden& dh = fit_rows(kept.dh, *d, pass.cut.rows());
    dh.mesh().engine().fill(dh.valid(), T{});
    kept.picked->lookup.add_sums(kept.picked->rows, d->valid(), dh.valid());
    return &dh;
  }

 private:
  [[nodiscard]] static EmbeddingOptions table_options(const TransformerOptions& options,
                                                      std::size_t index)
  {
    return {.seed = options.seed, .index = index, .gradients = !options.inference};
  }
  [[nodiscard]] static std::unique_ptr<AnyLayer<Hidden, T>>
  make_norm(const Mesh& mesh, const TransformerConfig& config, bool gradients)
  {
    const auto make = [&]<class N>(std::type_identity<N>) -> std::unique_ptr<AnyLayer<Hidden, T>> {
      return std::make_unique<LayerOf<Hidden, N>>(
          N{mesh, config.width, {config.epsilon, gradients}});
    };
    if (config.kind == TransformerKind::gpt) return make(std::type_identity<LayerNorm<S, B, T>>{});
    return make(std::type_identity<RmsNorm<S, B, T>>{});
  }

  [[nodiscard]] Embedding& logit_embedding() { return table_ ? *table_ : embedding_; }

  /// Returns `kept` as a matrix like H with `rows` rows, which may be cut anywhere.
  static Hidden& fit_rows(std::optional<Hidden>& kept, const Hidden& h, std::size_t rows)
  {
    return fit(kept, h.mesh(), {rows, h.cols()}, h.mesh().quantum());
  }

  /// Returns the rows of H whose logits are wanted.
  const Hidden& pick(const Hidden& h, const Pass& pass, LogitsOf which, OutputKept& kept) const
  {
    const SequenceCut& cut = pass.cut;
    const bool last_only = which == LogitsOf::last_tokens;
    if (which == LogitsOf::rows || (!cut.is_cut() && !last_only)) return h;
    const std::size_t sequences = cut.is_cut() ? cut.sequences : h.rows() / pass.sequence;
    Hidden& tokens = fit_rows(kept.tokens, h, sequences * (last_only ? 1 : pass.sequence));
    if (!cut.is_cut())
    {
      const auto from = h.valid();
      for (std::size_t b = 0; b < tokens.valid().rows(); ++b)
        h.mesh().engine().copy(from.block((b + 1) * pass.sequence - 1, 0, {1, from.cols()}),
                               tokens.valid().block(b, 0, {1, from.cols()}));
      return tokens;
    }
    if (!kept.picked || kept.picked->cut != cut || kept.picked->which != which)
    {
      auto& picked = kept.picked.emplace(PickedRows{cut, which, RowLookup<T, Mesh>{h.mesh()}});
      for (std::size_t b = 0; b < cut.sequences; ++b)
        for (std::size_t s = last_only ? cut.length - 1 : 0; s < cut.length; ++s)
          picked.rows.push_back(static_cast<int>(cut.row(b, s)));
      picked.lookup.plan(h.view(), tokens.view());
    }
    kept.picked->lookup.look_up(kept.picked->rows, h.valid(), tokens.valid());
    return tokens;
  }

  bool tied_;
  std::size_t context_parallel_;
  Dropout dropout_;
  Embedding embedding_;
  std::optional<PositionEmbedding<S, B, T>> positions_;
  std::optional<Embedding> table_;  // the logits' table, unless they use the embedding's
  std::unique_ptr<AnyLayer<Hidden, T>> norm_;
  Logits logits_;
};

}  // namespace cubist::CUBIST_ABI::detail
