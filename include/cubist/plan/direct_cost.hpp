// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Computes what a linear layer costs if ranks read and write each other's blocks in place
// (algorithm/direct). DistMatMul uses this method, Method::direct, if all ranks of a mesh share
// memory.
//
//   X (M, K) S::Input    W (K, N) S::Weight    Y (M, N) S::Output
//
//   Y = X W;   dX = dY W^T;   dW = X^T dY
//
// The plan of a direct product chooses how the ranks share the work (work_assignment.hpp). This
// header calls the same code with the same figures. Ranks send no elements.

#include <algorithm>
#include <cstddef>
#include <vector>

#include "cubist/algorithm/direct/work_assignment.hpp"
#include "cubist/machine/machine.hpp"
#include "cubist/matrix/placement.hpp"
#include "cubist/plan/cutting.hpp"
#include "cubist/plan/time.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist::CUBIST_ABI
{

/// The cost of a layer by the direct method.
struct DirectCost
{
  Time forward;
  Time backward;
  Time backward_weight;       // backward without dX
  Time backward_input;        // backward without dW
  std::size_t workspace = 0;  // elements on a rank
};

namespace detail
{

/// Returns the blocks of a matrix of layout `L` on a mesh of scheme `S`.
template <class S, class L>
[[nodiscard]] Placement planned_placement(Shape shape, const typename S::Axes::Array& extents,
                                          Quanta quanta)
{
  return placement<L, typename S::Axes>(extents, quanta, shape, Op::none);
}

/// The number of elements in a rank's workspaces: for small pieces, and for its part of the result.
[[nodiscard]] inline std::size_t direct_workspace(const std::vector<WorkAssignment>& products)
{
  std::size_t results = 0;
  std::size_t a = 0;
  std::size_t b = 0;
  std::size_t places = 0;
  for (const auto& product : products)
  {
    results += product.workspace.size();
    for (const auto& t : product.products)
    {
      if (t.a.size() > 1) a = std::max(a, t.size.m * t.size.k);
      if (t.b.size() <= 1) continue;
      b = std::max(b, t.size.k * t.size.n);
      places = std::max(places, t.b_slot + 1);
    }
  }
  return results + a + places * b;
}

/// Returns the cost of a direct product of matrices in any layouts.
[[nodiscard]] inline DirectCost direct_cost(const Placement& x, const Placement& w,
                                            const Placement& y, Ranks ranks, const Machine& machine,
                                            std::size_t scalar_bytes)
{
  const int cores = std::max(1, static_cast<int>(machine.cores));
  // Rank 0 has one of the largest parts of the work.
  const auto product = [&](const Placement& a, const Placement& b, const Placement& c) {
    return assign_work(a, b, c, 0, cores, scalar_bytes, machine.gemm, ProductList::to_predict);
  };
  const std::vector products{product(x, w, y), product(y, w.t(), x), product(x.t(), y, w)};
  const double unit = 2 * machine.gemm.products / machine.rates_of(scalar_bytes).largest();
  const int workers = std::clamp(static_cast<int>(machine.cores), 1, ranks.active);
  // Products run on all cores of a worker; windows and copies run on one.
  const double threads = std::min<double>(machine.threads(ranks.started),
                                          machine.cores / static_cast<double>(workers));
  const auto time = [&](std::size_t i) {
    Time one;
    one.products = unit * products[i].products_time / threads;
    one.inside = unit * (products[i].time - products[i].products_time);
    one.total = one.products + one.inside;
    return one;
  };
  DirectCost cost{time(0), time(1), time(2), time(1), direct_workspace(products)};
  cost.backward += cost.backward_weight;
  return cost;
}

/// Returns the placement of a matrix that is stored transposed.
[[nodiscard]] inline Placement store_transposed(const Placement& a)
{
  std::vector<Block> stored;
  for (int rank = 0; rank < a.ranks(); ++rank) stored.push_back({a[rank].cols, a[rank].rows});
  return {std::move(stored), true};
}

}  // namespace detail

/// Returns the cost of a layer for one rank of a mesh whose ranks are all on one node.
/// @param w_op transpose for weights that are stored (N, K), like an embedding's table
/// @pre S::fits(extents)
template <SchemeType S>
[[nodiscard]] DirectCost direct_cost(const typename S::Axes::Array& extents, ProductSize size,
                                     Ranks ranks, const Machine& machine, std::size_t scalar_bytes,
                                     ProductQuanta quanta = {}, Op w_op = Op::none)
{
  const auto [m, n, k] = detail::or_quantum(quanta, S::quantum(extents));
  const auto w =
      detail::planned_placement<S, typename S::Weight>({size.k, size.n}, extents, {k, n});
  return detail::direct_cost(
      detail::planned_placement<S, typename S::Input>({size.m, size.k}, extents, {m, k}),
      w_op == Op::none ? w : detail::store_transposed(w),
      detail::planned_placement<S, typename S::Output>({size.m, size.n}, extents, {m, n}), ranks,
      machine, scalar_bytes);
}

}  // namespace cubist::CUBIST_ABI
