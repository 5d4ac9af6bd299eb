// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Embeds tokens, on any scheme: H(i, :) = E(ids[i], :).
//
//   ids: M numbers, the same on every rank    E (V, d) Transposed<S::Weight>    H (M, d) S::Input
//
// E is stored in the same way as the weight of the logits H E^T, so that both may be the same
// matrix.
//
//   forward    a rank receives the rows of E for the distinct ids of its rows of H, unless it holds
//              them itself, and copies them to its rows
//   backward   each block of dH sums its rows by distinct id; each rank that holds a block of E,
//              replicas included, receives these sums, and adds them in the order of the blocks.
//              With many tokens, replicas that look up different rows add only the sums of theirs,
//              and an all_reduce adds up these terms
//
// Elements sent in forward: each block of H receives, from each block of E on another rank, a row
// for each of its distinct ids in that block, over the columns that both have. That is at most
// min(V, M') d' for a rank with M' rows and d' columns. In backward, each block of dH sends as many
// elements to each rank that holds the block of E, and nothing for ids that do not occur. If that
// may be more than an all_reduce of E's gradient over n replicas (gradients/table_gradient.hpp), it
// sends them only to one replica, and a rank sends 2 (n-1)/n of its block of E besides.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "cubist/core/error.hpp"
#include "cubist/core/random_stream.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/engine/span.hpp"
#include "cubist/gradients/parameter.hpp"
#include "cubist/gradients/table_gradient.hpp"
#include "cubist/matrix/dist_matrix.hpp"
#include "cubist/matrix/layout.hpp"
#include "cubist/nn/embedding/row_lookup.hpp"
#include "cubist/nn/initial_values.hpp"
#include "cubist/nn/layer.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist::CUBIST_ABI
{

/// How the table is initialised, and whether it is trained.
struct EmbeddingOptions
{
  std::uint64_t seed = 0;
  /// The layer's number, below 2^16.
  std::size_t index = 0;
  Initial initial = Normal{};  ///< the initial values of the table
  bool gradients = true;       ///< whether there is memory for gradients, and so a backward pass
};

/// A layer that embeds tokens. Each call throws ArgumentError for an id that the vocabulary does
/// not have.
template <SchemeType S, class B, RealScalar T>
class Embedding
{
 public:
  using Value = T;
  using Mesh = AxisMesh<typename S::Axes, B>;
  /// The table (vocabulary, width), cut like the transpose of a weight.
  using Table = DistMatrix<T, Transposed<typename S::Weight>, Mesh>;
  using Output = DistMatrix<T, typename S::Input, Mesh>;

  /// @throws ShapeError if there are no tokens or no features
  Embedding(const Mesh& mesh, std::size_t vocabulary, std::size_t features,
            const EmbeddingOptions& options = {})
      : mesh_{mesh},
        e_{mesh, {vocabulary, features}, quanta(mesh)},
        de_{gradient_like(e_, options.gradients)}
  {
    require<ShapeError>(vocabulary > 0 && features > 0, "got an embedding of ", vocabulary,
                        " tokens of ", features,
                        " features, so the table would be empty; give it at least one of each");
    detail::initialize(e_, options.initial, stream(options.seed, Draw::weight, options.index),
                       features);
  }

  /// The table (vocabulary, width).
  [[nodiscard]] Table& table() { return e_; }
  /// The gradient of the table.
  [[nodiscard]] Table& table_gradient() { return de_; }
  /// Whether the table is frozen, and so has no gradient.
  [[nodiscard]] bool is_frozen() const { return is_frozen_; }

  /// What `forward` leaves for `backward`.
  struct Kept
  {
    std::optional<Output> h;
    std::optional<detail::RowLookup<T, Mesh>> exchange;
    bool has_terms = false;  ///< whether `backward` has one term of a sum over replicas
  };

  /// Returns H, which is in `kept`. Each rank's rows are padded to whole sequences, unless ranks
  /// share sequences; `ids` then has one id for each row.
  Output& forward(std::span<const int> ids, const Pass& pass, Kept& kept) const
  {
    check(ids);
    const Span span{mesh_.engine(), {"embedding", "forward"}};
    const std::size_t rows = pass.cut.is_cut() ? 1 : pass.sequence;
    const Quanta quanta{rows * mesh_.quantum(), mesh_.quantum()};
    const Shape shape{ids.size(), e_.cols()};
    if (!kept.h || kept.h->shape() != shape || kept.h->quanta() != quanta)
    {
      const auto& h = fit(kept.h, mesh_, shape, quanta);
      if (!kept.exchange) kept.exchange.emplace(mesh_);
      kept.has_terms = all_reduces(h);
      constexpr unsigned axes = detail::bits_of<typename Mesh::Axes>(Pending{});
      kept.exchange->plan(e_.view(), h.view(), kept.has_terms ? axes : 0);
    }
    kept.exchange->look_up(ids, e_.valid(), kept.h->valid());
    return *kept.h;
  }

  /// Returns the ranks that have the other terms of the gradient that `backward` computes, or null
  /// if it computes the complete gradient. The first call is collective.
  [[nodiscard]] typename Mesh::Communicator* replicas(const Kept& kept) const
  {
    return kept.has_terms ? detail::replicas_along(mesh_, Pending{}) : nullptr;
  }

  /// Computes the gradient of the table from the gradient of H. Overwrites the old gradient or,
  /// with `accumulate`, adds to it.
  /// @param old_replicas  the ranks that have the other terms of the old gradient: null, if it is
  /// complete on every replica, or replicas(kept)
  /// @pre the ids are those of the `forward` that filled `kept`
  void backward(std::span<const int> ids, const Output& dh, const BackwardPass<T, Mesh>& pass,
                Kept& kept, bool accumulate = false,
                const typename Mesh::Communicator* old_replicas = nullptr)
  {
    check(ids);
    const Span span{mesh_.engine(), {"embedding", "backward"}};
    const auto& h = kept.h;
    require<ShapeError>(h && dh.shape() == h->shape() && dh.quanta() == h->quanta(),
                        "got a gradient of ", dh.shape(),
                        " that is not shaped and padded like the last output, so its rows have no "
                        "ids; make it like that output");
    if (is_frozen_) return;
    detail::require_gradient(de_);
    auto* const all = replicas(kept);
    // Only the first replica's complete gradient is a term.
    const bool is_term = !all || old_replicas == all || all->rank() == 0;
    if (!accumulate || !is_term) mesh_.engine().fill(de_.valid(), T{});
    kept.exchange->add_sums(ids, dh.valid(), de_.valid());
    pass.gradients.reduce(de_.padded(), all);
  }

  void append_parameters(Parameters<T, Mesh>& list, const std::string& prefix)
  {
    list.push_back(freezable_parameter(prefix + "weight", e_, de_, is_frozen_));
  }

 private:
  /// The axes along which replicas of the table look up different rows.
  using Pending = typename PendingAxes<typename Table::Layout, typename S::Input::RowAxes>::type;

  /// Whether an all_reduce completes the gradient.
  [[nodiscard]] bool all_reduces(const Output& h) const
  {
    const auto blocks = [&]<class... R>(Rows<R...>) {
      return detail::cut<typename S::Axes, R...>(mesh_.extents(), {}).parts;
    }(typename S::Input::RowAxes{});
    return detail::all_reduces_table(e_.rows(), h.rows(), blocks, h.padded().rows());
  }
  /// Rows of the table are columns of logits.
  [[nodiscard]] static Quanta quanta(const Mesh& mesh)
  {
    constexpr std::size_t aligned = row_alignment<typename Mesh::Engine> / sizeof(T);
    return {mesh.quantum() * std::max<std::size_t>(aligned, 1), mesh.quantum()};
  }
  void check(std::span<const int> ids) const
  {
    for (std::size_t i = 0; i < ids.size(); ++i)
      require<ArgumentError>(ids[i] >= 0 && static_cast<std::size_t>(ids[i]) < e_.rows(), "got id ",
                             ids[i], " for token ", i, ", but the vocabulary has ", e_.rows(),
                             " tokens; use 0 to ", e_.rows() - 1);
  }

  Mesh mesh_;
  Table e_;
  Table de_;
  bool is_frozen_ = false;
};

}  // namespace cubist::CUBIST_ABI
