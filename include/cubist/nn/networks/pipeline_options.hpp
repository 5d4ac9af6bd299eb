// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// How a network is cut in stages, and a batch in micro-batches (scheme/pipeline.hpp).

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
  /// The parts in which compute_gradients() cuts a batch; 0: as many as there are stages. The
  /// bubble is (p - 1) / (m + p - 1) of a step for m parts and p stages of equal cost.
  std::size_t micro_batches = 0;
  /// The pieces of consecutive layers that each stage has. With v pieces, stage s has the pieces s,
  /// s + p, s + 2p, …, and the bubble is one v-th; but v times as many activations are sent, and
  /// the number of micro-batches must be a multiple of the stages'.
  std::size_t pieces = 1;
  /// The numbers of layers of the pieces, in their order; empty: pieces of equal cost, as nearly
  /// as whole layers allow.
  std::vector<std::size_t> layers = {};
};

namespace detail
{

/// Cuts layers into consecutive pieces, none of them empty, so that the largest cost of a piece is
/// as small as possible. Returns the first layer of each piece, and behind them the number of
/// layers.
/// @pre 1 <= pieces <= costs.size()
[[nodiscard]] inline std::vector<std::size_t> cut_by_cost(const std::vector<double>& costs,
                                                          std::size_t pieces)
{
  const std::size_t n = costs.size();
  // largest[k][i]: the largest cost of k pieces of the first i layers; from[k][i]: where the last
  // one begins.
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

/// The costs of a transformer's blocks for cut_in_pieces(), in products of a token, divided by the
/// width. The logits, which are behind the last block, count as its.
/// @param attention  columns of queries, keys and values, and rows of the output's weights
/// @param feed_forward  columns of the matrices of a feed-forward network, and rows of the last one
[[nodiscard]] inline std::vector<double> block_costs(std::size_t blocks, std::size_t attention,
                                                     std::size_t feed_forward,
                                                     std::size_t vocabulary)
{
  std::vector<double> costs(blocks, static_cast<double>(attention + feed_forward));
  if (!costs.empty()) costs.back() += static_cast<double>(vocabulary);
  return costs;
}

/// The first layer of each piece of a network on so many stages, and behind them the number of
/// layers.
/// @param costs of the layers
/// @throws ArgumentError for options that do not fit the layers
[[nodiscard]] inline std::vector<std::size_t>
cut_in_pieces(const std::vector<double>& costs, std::size_t stages, const PipelineOptions& options)
{
  require<ArgumentError>(options.pieces > 0, "got stages of 0 pieces, which have no layers; use at "
                                             "least 1");
  const std::size_t pieces = stages * options.pieces;
  const std::string on =
      std::to_string(stages) + " stages of " + std::to_string(options.pieces) + " pieces";
  require<ArgumentError>(pieces <= costs.size(), "got ", costs.size(), " layers for ", on,
                         ", so a piece would have none; use at most as many pieces as layers");
  require<ArgumentError>(stages > 1 || options.pieces == 1, "got ", options.pieces,
                         " pieces of layers on one stage, which has nothing to wait for; use 1");
  if (options.layers.empty()) return cut_by_cost(costs, pieces);
  std::vector<std::size_t> begins{0};
  for (const std::size_t n : options.layers)
  {
    require<ArgumentError>(n > 0, "got a piece of 0 layers, which computes nothing; give each at "
                                  "least one");
    begins.push_back(begins.back() + n);
  }
  require<ArgumentError>(begins.size() == pieces + 1 && begins.back() == costs.size(), "got ",
                         options.layers.size(), " pieces of ", begins.back(), " layers for ", on,
                         " and ", costs.size(),
                         " layers, so some would be left out or missing; give a number of layers "
                         "for each piece");
  return begins;
}

/// A batch in micro-batches of consecutive rows (or sequences), all of equal size except the last
/// one.
struct MicroBatches
{
  /// @param wanted  the number; fewer, if some would be empty
  MicroBatches(std::size_t all, std::size_t wanted)
      : rows{all}, size{std::max<std::size_t>(1, (all + wanted - 1) / wanted)},
        count{std::max<std::size_t>(1, (all + size - 1) / size)}
  {
  }

  /// The first row of a micro-batch.
  [[nodiscard]] std::size_t first(std::size_t i) const { return i * size; }
  [[nodiscard]] std::size_t rows_of(std::size_t i) const
  {
    return std::min(size, rows - std::min(rows, first(i)));
  }

  std::size_t rows;
  std::size_t size;
  std::size_t count;
};

}  // namespace detail

}  // namespace cubist::CUBIST_ABI
