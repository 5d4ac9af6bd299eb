// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// What Muon (nn/optimizers/muon.hpp) computes and sends in a step on a mesh: the sum over its
// matrices, each in the way that muon_cost.hpp chooses for it.
//
//   W (in, out) S::Weight, or that of S::Next
//
// Matrices of one shape that are cut in the same way form one kind.

#include <cstddef>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "cubist/core/block.hpp"
#include "cubist/machine/machine.hpp"
#include "cubist/matrix/placement.hpp"
#include "cubist/plan/muon_cost.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// What Muon adds to a step, apart from passes over memory.
struct MuonWork
{
  double seconds = 0;   // of the busiest rank
  double products = 0;  // the part of them in products
  double words = 0;     // elements that a rank sends, averaged over the ranks
  double flops = 0;     // operations of a rank, averaged over the ranks
  double elements = 0;  // elements of a rank's workspace
  std::string ways;     // "home for 8 of 1024 x 4096", and so on
};

/// The matrices that Muon updates on a mesh, by kind.
class MuonMatrices
{
 public:
  /// Adds matrices of layout `L` on a mesh of axes `A`.
  /// @param quanta  the quanta to whose multiples they are padded
  template <class L, class A>
  void add(const typename A::Array& extents, Quanta quanta, Shape shape, std::size_t count)
  {
    const Placement placed = placement<L, A>(extents, quanta, shape, Op::none);
    MuonMatrix::Part part{0, shape, {}};
    for (int rank = 0; rank < placed.ranks(); ++rank) part.blocks.push_back(placed[rank]);
    for (Kind& kind : kinds_)
      if (kind.w.shape == shape && kind.w.parts.front().blocks == part.blocks)
      {
        kind.count += count;
        return;
      }
    kinds_.push_back({{shape, {std::move(part)}}, count});
  }

  /// @param steps  the steps of Newton-Schulz
  [[nodiscard]] MuonWork work(MuonWay way, int steps, const Machine& machine,
                              std::size_t scalar_bytes) const
  {
    MuonWork all;
    for (const auto& [w, count] : kinds_)
    {
      const auto [grid, cost] = choose_muon_way(w, way, steps, count, machine, scalar_bytes);
      const std::size_t ranks = w.parts.front().blocks.size();
      const bool home = grid.way == MuonWay::home;
      const auto n = static_cast<double>(count);
      all.seconds += cost.seconds;
      all.products += cost.products_seconds;
      all.words += n * double(cost.elements()) / double(ranks);
      all.flops += (home ? n / double(ranks) : n) * cost.flops;
      // Homes keep all their matrices at once.
      const std::size_t x = grid.v(w) * grid.u(w);
      all.elements += double((home ? ceil_div(count, ranks) : 1) * x);
      // X twice, A and B, and on several rows of ranks a gathered X.
      const auto r = static_cast<std::size_t>(grid.rows);
      all.elements += double(2 * x + 2 * grid.v(w) * w.n() + (r > 1 ? r * x : 0));
      std::ostringstream text;
      text << (all.ways.empty() ? "" : ", ") << name_of(grid.way) << " for " << count << " of "
           << w.shape.rows << " x " << w.shape.cols;
      all.ways += text.str();
    }
    return all;
  }

 private:
  struct Kind
  {
    MuonMatrix w;
    std::size_t count;
  };

  std::vector<Kind> kinds_;
};

}  // namespace cubist::CUBIST_ABI::detail
