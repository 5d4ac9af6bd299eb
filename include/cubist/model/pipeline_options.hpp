// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// How a network is cut into stages, and a batch into micro-batches (scheme/pipeline.hpp).

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "cubist/core/error.hpp"

namespace cubist::CUBIST_ABI
{

/// The options of a network on a Pipeline; other networks ignore them.
struct PipelineOptions
{
  /// The number of micro-batches into which compute_gradients() cuts a batch, which must have a row
  /// (or a sequence) for each. 0: as many as there are stages, or rows if these are fewer. The
  /// bubble is (p - 1) / (m + p - 1) of a step for m micro-batches and p stages of equal cost.
  std::size_t micro_batches = 0;
  /// The number of pieces of consecutive layers on each stage. With v pieces, stage s has the
  /// pieces s, s + p, s + 2p, …, and the bubble shrinks to one v-th. But v times as many
  /// activations are sent, and the number of micro-batches must be a multiple of the number of
  /// stages. A single stage has one piece.
  std::size_t pieces = 1;
  /// The number of layers in each piece, in order; empty: pieces of equal cost, as nearly as whole
  /// layers allow.
  std::vector<std::size_t> layers = {};
};

namespace detail
{

/// Cuts layers into consecutive pieces, none of them empty, so that the largest cost of a piece is
/// as small as possible. Returns the first layer of each piece, followed by the number of layers.
/// @pre 1 <= pieces <= costs.size()
[[nodiscard]] inline std::vector<std::size_t> cut_by_cost(const std::vector<double>& costs,
                                                          std::size_t pieces)
{
  const std::size_t n = costs.size();
  // largest[k][i]: the largest cost of k pieces of the first i layers; from[k][i]: where the last
  // of these pieces begins.
  const std::vector<double> none(n + 1, std::numeric_limits<double>::infinity());
  std::vector<std::vector<double>> largest(pieces + 1, none);
  std::vector<std::vector<std::size_t>> from(pieces + 1, std::vector<std::size_t>(n + 1));
  largest[0][0] = 0;
  for (std::size_t k = 1; k <= pieces; ++k)
    for (std::size_t i = k; i <= n; ++i)
    {
      double last = 0;
      for (std::size_t j = i; j-- > k - 1;)
      {
        last += costs[j];
        const double most = std::max(largest[k - 1][j], last);
        if (most < largest[k][i]) largest[k][i] = most, from[k][i] = j;
      }
    }
  std::vector<std::size_t> begins(pieces + 1, n);
  for (std::size_t k = pieces; k > 0; --k) begins[k - 1] = from[k][begins[k]];
  return begins;
}

/// Returns the first layer of each piece of a network on this many stages, followed by the number
/// of layers.
/// @param costs the costs of the layers
/// @throws ArgumentError for options that do not fit the layers or the stages
[[nodiscard]] inline std::vector<std::size_t>
cut_in_pieces(const std::vector<double>& costs, std::size_t stages, const PipelineOptions& options)
{
  require<ArgumentError>(options.pieces > 0,
                         "got stages of 0 pieces, so they would have no layers; use at least 1");
  const std::size_t asked = stages * options.pieces;
  const std::size_t pieces = stages == 1 ? 1 : asked;
  const std::string part = options.pieces == 1 ? "stage" : "piece";
  const std::string on =
      std::to_string(stages) + (stages == 1 ? " stage" : " stages") +
      (options.pieces == 1 ? "" : " of " + std::to_string(options.pieces) + " pieces");
  require<ArgumentError>(options.pieces == 1 || options.micro_batches % stages == 0, "got ",
                         options.micro_batches, " micro-batches for ", on,
                         ", but each turn takes as many micro-batches as there are stages; use a "
                         "multiple of ",
                         stages);
  require<ArgumentError>(pieces <= costs.size(), "got ", costs.size(), " layers for ", on,
                         ", so a ", part, " would have none; use at most as many ", part,
                         "s as layers");
  if (options.layers.empty()) return cut_by_cost(costs, pieces);
  std::vector<std::size_t> begins{0};
  for (const std::size_t n : options.layers)
  {
    require<ArgumentError>(n > 0, "got a ", part,
                           " of 0 layers, so it would compute nothing; give each at least one");
    begins.push_back(begins.back() + n);
  }
  require<ArgumentError>(
      begins.size() == asked + 1 && begins.back() == costs.size(), "got ", options.layers.size(),
      " numbers of layers, ", begins.back(), " in total, for ", on, " and ", costs.size(),
      " layers, so some would be left out or missing; give a number of layers for each ", part);
  if (stages == 1) return {0, costs.size()};
  return begins;
}

/// A batch cut into micro-batches of consecutive rows (or sequences). Their sizes differ by at most
/// one, and the larger ones come first.
struct MicroBatches
{
  /// The first row of a micro-batch.
  [[nodiscard]] std::size_t first(std::size_t i) const
  {
    return i * (rows / count) + std::min(i, rows % count);
  }
  [[nodiscard]] std::size_t rows_of(std::size_t i) const
  {
    return rows / count + (i < rows % count ? 1 : 0);
  }

  std::size_t rows;
  std::size_t count;
};

/// Returns the micro-batches of an evaluation, whose results do not depend on their number. None is
/// empty if there are rows.
[[nodiscard]] inline MicroBatches cut_evaluation(std::size_t rows, std::size_t stages,
                                                 const PipelineOptions& options)
{
  const std::size_t wanted = options.micro_batches > 0 ? options.micro_batches : stages;
  return {rows, std::clamp<std::size_t>(rows, 1, wanted)};
}

/// Returns the micro-batches of a training step.
/// @param unit  the word for rows in errors: "rows" or "sequences"
/// @throws ArgumentError for fewer rows than micro-batches
[[nodiscard]] inline MicroBatches cut_step(std::size_t rows, const char* unit, std::size_t stages,
                                           const PipelineOptions& options)
{
  require<ArgumentError>(rows >= options.micro_batches, "got ", rows, " ", unit, " for ",
                         options.micro_batches, " micro-batches, so some would be empty; give a ",
                         "step at least as many ", unit,
                         ", or make the network with fewer `.micro_batches`");
  const MicroBatches all = cut_evaluation(rows, stages, options);
  require<ArgumentError>(options.pieces == 1 || all.count % stages == 0, "got ", rows, " ", unit,
                         " for ", stages, " stages of ", options.pieces,
                         " pieces, but each turn takes as many micro-batches as there are stages; "
                         "give a step at least ",
                         stages, " ", unit);
  return all;
}

}  // namespace detail

}  // namespace cubist::CUBIST_ABI
