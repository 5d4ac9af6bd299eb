// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The embedding of tokens, on any scheme: H(i, :) = E(ids[i], :).
//
//   ids: M numbers, the same on every rank    E (V, d) Transposed<S::Weight>    H (M, d) S::Input
//
// E is stored in the same way as the weight of the logits H E^T, so that both may be the same
// matrix.
//
//   forward    a rank receives the rows of E with the distinct ids of its rows of H, as far as it
//              does not hold them, and copies them to its rows
//   backward   each holder of a block of E, replicas included, receives the sums of dH's rows with
//              each distinct id from each block of dH, and adds them, in the order of the blocks
//
// Words: forward, for each block of H and each block of E on other ranks, the distinct ids of the
// first that are in the second, times the columns that both have; so at most min(V, M') d' to a
// rank with M' rows and d' columns. Backward as many to each holder of a block of E, from each
// block of dH. Nothing is sent for ids that do not occur, and replicas of E need no all_reduce.

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
  bool gradients = true;       ///< whether there is memory for gradients, and a backward
};

/// @throws from every call: ArgumentError for an id that the vocabulary does not have
template <SchemeType S, class B, RealScalar T>
class Embedding
{
 public:
  using Value = T;
  using Mesh = AxisMesh<typename S::Axes, B>;
  /// The table (vocabulary, width), cut as the transpose of a weight.
  using Table = DistMatrix<T, Transposed<typename S::Weight>, Mesh>;
  using Output = DistMatrix<T, typename S::Input, Mesh>;

  /// @throws ShapeError for no tokens or no features
  Embedding(const Mesh& mesh, std::size_t vocabulary, std::size_t features,
            const EmbeddingOptions& options = {})
      : mesh_{mesh},
        e_{mesh, {vocabulary, features}, quanta(mesh)},
        de_{gradient_like(e_, options.gradients)}
  {
    require<ShapeError>(vocabulary > 0 && features > 0, "got an embedding of ", vocabulary,
                        " tokens in ", features,
                        " features, which has no elements; give it at least one of each");
    detail::initialize(e_, options.initial, stream(options.seed, Draw::weight, options.index),
                       features);
  }

  /// The table (vocabulary, width).
  [[nodiscard]] Table& table() { return e_; }
  /// Its gradient.
  [[nodiscard]] Table& table_gradient() { return de_; }
  /// Whether the table is frozen: it has no gradient.
  [[nodiscard]] bool is_frozen() const { return is_frozen_; }

  /// What a forward leaves for its backward.
  struct Kept
  {
    std::optional<Output> h;
    std::optional<detail::RowLookup<T, Mesh>> exchange;
  };

  /// H, in `kept`. Its rows are padded to whole sequences, unless ranks share sequences: then `ids`
  /// has one for each row.
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
      kept.exchange->plan(e_.view(), h.view());
    }
    kept.exchange->look_up(ids, e_.valid(), kept.h->valid());
    return *kept.h;
  }

  /// Computes the gradient of the table from the gradient of H. It overwrites the old one or, with
  /// `accumulate`, is added to it. It is complete on every replica.
  /// @pre the ids are the same as in the forward of `kept`
  void backward(std::span<const int> ids, const Output& dh, const BackwardPass<T, Mesh>& pass,
                Kept& kept, bool accumulate = false)
  {
    check(ids);
    const Span span{mesh_.engine(), {"embedding", "backward"}};
    const auto& h = kept.h;
    require<ShapeError>(h && dh.shape() == h->shape() && dh.quanta() == h->quanta(),
                        "got a gradient of ", dh.shape(),
                        " that is not like the last output, so its rows have no ids; make it like "
                        "that output");
    if (is_frozen_) return;
    detail::require_gradient(de_);
    if (!accumulate) mesh_.engine().fill(de_.valid(), T{});
    kept.exchange->add_sums(ids, dh.valid(), de_.valid());
    pass.gradients.sum(mesh_, Axes<>{}, de_.padded());
  }

  void append_parameters(Parameters<T, Mesh>& list, const std::string& prefix)
  {
    list.push_back(freezable_parameter(prefix + "weight", e_, de_, is_frozen_));
  }

 private:
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
                             ids[i], " for token ", i, " of a vocabulary of ", e_.rows(),
                             ", which has no such token; use 0 to ", e_.rows() - 1);
  }

  Mesh mesh_;
  Table e_;
  Table de_;
  bool is_frozen_ = false;
};

}  // namespace cubist::CUBIST_ABI
