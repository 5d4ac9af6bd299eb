// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Chooses where Muon (nn/optimizers/muon.hpp) orthogonalizes the momentum of a matrix, and computes
// what that costs.
//
//   W (in, out) in any blocks    X (n, k) = W or W^T, where n <= k: rows [row] cols [col] of a grid
//
// The momentum of W is copied to a grid of r x c ranks, orthogonalized there, and copied back:
//
//   home         a grid of one rank. Matrices are dealt out to the ranks by their work
//   replicated   every rank has the whole matrix, and copies its own block back
//   distributed  r c = P, all ranks that hold W. If W is already cut like the grid, it is not sent
//
// Elements that all ranks send in total:
//
//   there        for each rank, the elements of X on it that are not in its block of W
//   and back     for each rank, the elements of its block of W that are not in its part of X
//   a step       of Newton-Schulz on the grid: GramGrid::elements_of_iteration
//   the norm     2 (P - 1)
//
// Source: Jordan et al., "Muon", 2024; Liu et al., "Muon is Scalable for LLM Training",
// arXiv 2502.16982, section 2.3.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "cubist/core/block.hpp"
#include "cubist/machine/machine.hpp"
#include "cubist/scheme/gram_grid.hpp"

namespace cubist::CUBIST_ABI
{

/// Where Muon orthogonalizes a matrix.
enum class MuonWay : std::uint8_t
{
  automatic,    ///< whichever the cost formulas choose for its shape and mesh
  distributed,  ///< on a grid of all ranks that hold it
  home,         ///< on one rank
  replicated    ///< on every rank that holds it
};

/// The name of a way.
[[nodiscard]] constexpr const char* name_of(MuonWay way)
{
  constexpr const char* names[] = {"automatic", "distributed", "home", "replicated"};
  return names[static_cast<std::size_t>(way)];
}

namespace detail
{

/// A matrix that Muon orthogonalizes: one parameter, or several side by side.
struct MuonMatrix
{
  struct Part
  {
    std::size_t first = 0;           // its first column in the whole matrix
    Shape shape = {};                // (in, out)
    std::vector<Block> blocks = {};  // the blocks of all ranks of the mesh
  };
  Shape shape = {};
  std::vector<Part> parts = {};

  /// The ranks that hold it: those of one stage.
  [[nodiscard]] std::vector<int> ranks() const
  {
    std::vector<int> all;
    for (std::size_t r = 0; r < parts.front().blocks.size(); ++r)
      if (parts.front().blocks[r].padded().size() > 0) all.push_back(static_cast<int>(r));
    return all;
  }
  /// Whether X is W, not W^T, so that the Gram matrix X X^T has W's smaller side.
  [[nodiscard]] bool is_wide() const { return shape.rows <= shape.cols; }
  [[nodiscard]] std::size_t n() const { return std::min(shape.rows, shape.cols); }
  [[nodiscard]] std::size_t k() const { return std::max(shape.rows, shape.cols); }
};

/// The grid on which a matrix is orthogonalized.
struct MuonGrid
{
  MuonWay way = MuonWay::home;
  std::vector<int> ranks = {};  // in the order of rows
  int rows = 1;
  int cols = 1;

  [[nodiscard]] bool is_one() const { return rows * cols == 1; }
  /// The number of rows of X on a rank; u() is the number of columns.
  [[nodiscard]] std::size_t v(const MuonMatrix& w) const
  {
    return ceil_div(w.n(), static_cast<std::size_t>(rows));
  }
  [[nodiscard]] std::size_t u(const MuonMatrix& w) const
  {
    return ceil_div(w.k(), static_cast<std::size_t>(cols));
  }

  /// The part of W that a rank holds during the orthogonalization.
  [[nodiscard]] Block cell(const MuonMatrix& w, int rank) const
  {
    const auto at = std::find(ranks.begin(), ranks.end(), rank);
    if (at == ranks.end()) return {};
    const auto index = is_one() ? 0 : static_cast<std::size_t>(at - ranks.begin());
    const auto r = static_cast<std::size_t>(rows);
    const auto c = static_cast<std::size_t>(cols);
    const Range of_n = block_range(w.n(), r * v(w), r, index / c);
    const Range of_k = block_range(w.k(), c * u(w), c, index % c);
    return w.is_wide() ? Block{of_n, of_k} : Block{of_k, of_n};
  }
};

/// Returns the part of a block in columns [first, first + cols) of a matrix, as a block of these
/// columns alone.
[[nodiscard]] inline Block columns_of(const Block& whole, std::size_t first, std::size_t cols)
{
  const std::size_t begin = std::clamp(whole.cols.offset, first, first + cols);
  const std::size_t end = std::clamp(whole.cols.offset + whole.cols.valid, first, first + cols);
  return {whole.rows, {begin - first, end - begin, end - begin}};
}

/// The number of elements that are in both blocks.
[[nodiscard]] inline std::uint64_t common_elements(const Block& a, const Block& b)
{
  const auto common = [](const Range& x, const Range& y) {
    const std::size_t begin = std::max(x.offset, y.offset);
    const std::size_t end = std::min(x.offset + x.valid, y.offset + y.valid);
    return std::uint64_t{end > begin ? end - begin : 0};
  };
  return common(a.rows, b.rows) * common(a.cols, b.cols);
}

/// The machine whose figures an optimizer uses, because no other is given to it.
[[nodiscard]] inline const Machine& usual_machine()
{
  static const Machine machine;
  return machine;
}

/// The cost of orthogonalizing matrices of one shape.
struct MuonCost
{
  std::uint64_t moved = 0;      // elements that all ranks send there and back, for one matrix
  std::uint64_t products = 0;   // elements that all ranks send for its products
  double flops = 0;             // operations of a rank that works on one of them
  double seconds = 0;           // of the busiest rank, for all matrices
  double products_seconds = 0;  // the part of them in products

  [[nodiscard]] std::uint64_t elements() const { return moved + products; }
};

/// The number of elements that all ranks send for the products of one matrix.
[[nodiscard]] inline std::uint64_t muon_product_elements(const MuonMatrix& w, const MuonGrid& grid,
                                                         int steps)
{
  if (grid.is_one()) return 0;
  return static_cast<std::uint64_t>(steps) *
             GramGrid::elements_of_iteration({grid.rows, grid.cols}, w.n(), w.k()) +
         2 * static_cast<std::uint64_t>(grid.rows * grid.cols - 1);
}

/// @param steps  the steps of Newton-Schulz
/// @param count  the number of matrices of this shape, all of them cut in the same way
[[nodiscard]] inline MuonCost muon_cost(const MuonMatrix& w, const MuonGrid& grid, int steps,
                                        std::size_t count, const Machine& machine,
                                        std::size_t scalar_bytes)
{
  MuonCost cost;
  for (std::size_t rank = 0; rank < w.parts.front().blocks.size(); ++rank)
  {
    const Block whole = grid.cell(w, static_cast<int>(rank));
    for (const auto& part : w.parts)
    {
      const Block cell = columns_of(whole, part.first, part.shape.cols);
      const Block& block = part.blocks[rank];
      cost.moved += cell.valid().size() + block.valid().size() - 2 * common_elements(cell, block);
    }
  }
  cost.products = muon_product_elements(w, grid, steps);

  const int all = static_cast<int>(w.ranks().size());
  const double cores = machine.cores_to_multiply({all, all});
  const RateTable& rates = machine.rates_of(scalar_bytes);
  const std::size_t v = grid.v(w), u = grid.u(w), n = w.n();
  const std::size_t inner = ceil_div(n, static_cast<std::size_t>(grid.cols));
  double products = 0;
  const auto add = [&](ProductSize size, double part) {
    products += part * steps * machine.product_seconds(rates, size, scalar_bytes) / cores;
    cost.flops += part * steps * 2.0 * double(size.m) * double(size.n) * double(size.k);
  };
  add({v, n, u}, 0.5), add({v, n, inner}, 0.5), add({v, u, n}, 1);
  const Link& link = all > machine.ranks_per_node() ? machine.across() : machine.inside();
  const auto bytes = static_cast<double>(scalar_bytes);
  // The number of elements that the busiest rank sends or receives for a matrix.
  const bool home = grid.way == MuonWay::home;
  const double busy = home ? double(cost.moved) : double(cost.elements()) / all;
  const double messages =
      home ? 2.0 * all : 2.0 * all + steps * (3.0 * (grid.cols - 1) + 2.0 * (grid.rows - 1));
  const auto rounds =
      static_cast<double>(home ? ceil_div(count, static_cast<std::size_t>(all)) : count);
  cost.products_seconds = rounds * products;
  const double waits = all > 1 ? messages * link.latency : 0;
  cost.seconds = cost.products_seconds + rounds * (busy * bytes / link.bandwidth + waits);
  return cost;
}

/// A grid, and its cost.
struct MuonChoice
{
  MuonGrid grid;
  MuonCost cost;
};

/// Returns the fastest grid of a way. A home is the first rank.
/// @param most  the number of elements that all ranks may send for its products; a grid of one
/// sends none
[[nodiscard]] inline std::optional<MuonChoice>
best_of_way(const MuonMatrix& w, MuonWay way, int steps, std::size_t count, const Machine& machine,
            std::size_t scalar_bytes,
            std::uint64_t most = std::numeric_limits<std::uint64_t>::max())
{
  const auto ranks = w.ranks();
  const auto choice = [&](const MuonGrid& grid) {
    return MuonChoice{grid, muon_cost(w, grid, steps, count, machine, scalar_bytes)};
  };
  if (way == MuonWay::home) return choice({way, {ranks.front()}});
  if (way == MuonWay::replicated) return choice({way, ranks});
  std::optional<MuonChoice> best;
  const int all = static_cast<int>(ranks.size());
  for (int rows = 1; rows <= all; ++rows)
  {
    const MuonGrid grid{way, ranks, rows, all / rows};
    if (all % rows != 0 || muon_product_elements(w, grid, steps) > most) continue;
    if (auto one = choice(grid); !best || one.cost.seconds < best->cost.seconds)
      best = std::move(one);
  }
  return best;
}

/// Returns the best grid of the forced way. For `automatic`, that is a home, unless another way
/// takes less than nine tenths of its time and sends no more than it takes to copy the whole matrix
/// to every rank.
[[nodiscard]] inline MuonChoice choose_muon_way(const MuonMatrix& w, MuonWay forced, int steps,
                                                std::size_t count, const Machine& machine,
                                                std::size_t scalar_bytes)
{
  if (forced != MuonWay::automatic)
    return *best_of_way(w, forced, steps, count, machine, scalar_bytes);
  MuonChoice best = *best_of_way(w, MuonWay::home, steps, count, machine, scalar_bytes);
  const double limit = 0.9 * best.cost.seconds;
  const auto replicated = best_of_way(w, MuonWay::replicated, steps, count, machine, scalar_bytes);
  const std::uint64_t most = replicated->cost.elements();
  const auto distributed =
      best_of_way(w, MuonWay::distributed, steps, count, machine, scalar_bytes, most);
  for (const auto& other : {distributed, replicated})
    if (other && other->cost.elements() <= most &&
        other->cost.seconds < std::min(limit, best.cost.seconds))
      best = *other;
  return best;
}

/// Deals matrices out to homes, the largest first, each to the rank with the least work.
/// @param work  the work of each matrix  @param ranks  the ranks that may be its home
[[nodiscard]] inline std::vector<int> deal_homes(const std::vector<double>& work,
                                                 const std::vector<std::vector<int>>& ranks)
{
  std::vector<std::size_t> order(work.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return work[a] > work[b]; });
  std::vector<double> load;
  std::vector<int> homes(work.size());
  for (const std::size_t i : order)
  {
    for (const int rank : ranks[i])
      if (load.size() <= static_cast<std::size_t>(rank))
        load.resize(static_cast<std::size_t>(rank) + 1);
    homes[i] = *std::min_element(ranks[i].begin(), ranks[i].end(), [&](int a, int b) {
      return load[static_cast<std::size_t>(a)] < load[static_cast<std::size_t>(b)];
    });
    load[static_cast<std::size_t>(homes[i])] += work[i];
  }
  return homes;
}

}  // namespace detail

}  // namespace cubist::CUBIST_ABI
