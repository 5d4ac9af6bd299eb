// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Products of block-cyclic matrices (foreign/pgemm.hpp).
//
// If all ranks of the communicator share memory, they copy A and B there and multiply
// (shared_product.hpp). Between nodes they multiply panel by panel on the grid of C
// (gemm_panels.hpp). If panels would send much more between the nodes, or if ranks of one node
// share no memory, A and B are converted to the fastest scheme and mesh according to the planner.
// The result is converted back (converted_product.hpp).

#include <algorithm>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include <boost/mpi/communicator.hpp>

#include <cubist/algorithm/options.hpp>
#include <cubist/core/block.hpp>
#include <cubist/core/error.hpp>
#include <cubist/core/scalar.hpp>
#include <cubist/engine/engine.hpp>
#include <cubist/engine/shapes.hpp>
#include <cubist/foreign/block_cyclic.hpp>
#include <cubist/foreign/foreign_matrix.hpp>
#include <cubist/foreign/pgemm.hpp>
#include <cubist/machine/machine.hpp>

#include "converted_product.hpp"
#include "gemm_panels.hpp"
#include "local_part.hpp"
#include "message_product.hpp"
#include "product_arguments.hpp"
#include "session.hpp"
#include "shared_product.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

/// Returns the machine of the options, with the cores and nodes of these ranks.
[[nodiscard]] inline Machine machine_here(const PgemmOptions& options, const PblasSession& session)
{
  Machine machine = options.machine;
  machine.cores = session.cores();
  machine.links.front().ranks = session.ranks_of_node();
  return machine;
}

/// Whether the ranks compute in shared memory.
/// @throws ArgumentError for Method::direct without shared memory
[[nodiscard]] inline bool shares_memory(PblasSession& session, const PgemmOptions& options)
{
  const bool shares = session.world().exposes();
  require<ArgumentError>(shares || options.method != Method::direct,
                         "got Method::direct for a product of ranks that cannot read each other's "
                         "memory; use Method::automatic");
  return shares && options.method != Method::collectives;
}

/// Returns the maximum number of bytes of workspace that `of_ranks` ranks keep.
/// @param fraction the part of the matrices' size, unless the options give another
[[nodiscard]] inline std::size_t most_kept(PblasSession& session, const PgemmOptions& options,
                                           double fraction, int of_ranks)
{
  const double all = options.kept.value_or(fraction) * double(session.products().operand_bytes());
  return static_cast<std::size_t>(std::min(all * of_ranks / session.world().size(), 1e18));
}

/// Adds how much workspace is kept to a report.
inline void report_kept(PgemmReport& report, std::size_t bytes)
{
  report.kept = bytes;
  report.chosen += join({", ", (bytes + (1U << 20U) - 1) >> 20U, " MiB kept for later calls"});
}

/// Whether a product is computed in panels on the grid of C, instead of by a plan. Depends on no
/// figure of the machine but the number of ranks on a node.
///
/// Panels take as long as the product or the links between nodes, whichever is longer, and a plan
/// up to the sum of both, because it multiplies after it has received. How fast the links are is
/// not known. Let panels need the links for r times as long as the plan does. Where links are slow,
/// panels then take up to r times as long as the plan. Where the product takes as long as the
/// links, the plan takes up to 1 + 1/r times as long as panels. The two are equal for r = 1.6.
template <PblasScalar T>
[[nodiscard]] bool favours_panels(const GemmPanelPlan& panels, const Plan& plan, int ranks,
                                  const Machine& machine)
{
  constexpr double most = 1.6;
  const auto elements = static_cast<double>(panels.cost(machine.on_a_node(ranks)).most());
  const double of_panels = elements * sizeof(T) / machine.across().bandwidth;
  return of_panels <= most * link_seconds<T>(plan, panels.call(), ranks, machine);
}

template <PblasScalar T>
[[nodiscard]] std::unique_ptr<MessageProduct<T>>
plan_in_messages(PblasSession& session, const ProductArguments& call, const PgemmOptions& options)
{
  auto& world = session.world();
  const Machine machine = machine_here(options, session);
  const Plan plan = plan_product<T>(call, world.size(), machine).product;
  if (options.method == Method::automatic && session.ranks_of_node() < world.size())
  {
    const GemmPanelPlan panels{call, session.ranks_of_node()};
    if (favours_panels<T>(panels, plan, world.size(), machine))
    {
      using Groups = PanelGroups<MpiCommunicator>;
      const auto& grid = call.c.layout.grid;
      const std::vector<int> extents{grid.rows, grid.cols, static_cast<int>(grid.order)};
      const auto& groups = session.products().template mesh<Groups>("panels", extents, [&] {
        return Groups{world, panels};
      });
      return std::make_unique<PanelProduct<T>>(panels, groups);
    }
  }
  return with_scheme<ProductSchemes>(
      plan.scheme, [&]<class S>() -> std::unique_ptr<MessageProduct<T>> {
        const auto& mesh =
            session.products().template mesh<Mesh<S, Mpi>>(plan.scheme, plan.extents, [&] {
              return Mesh<S, Mpi>{world, plan};
            });
        return std::make_unique<SchemeProduct<S, T>>(mesh, call, options.method);
      });
}

template <PblasScalar T>
void run_product(PblasSession& session, const ProductArguments& call, T alpha,
                 LocalArray<const T> a, LocalArray<const T> b, T beta, LocalArray<T> c,
                 const PgemmOptions& options, PgemmReport& report)
{
  auto& world = session.world();
  require<ArgumentError>(!options.kept || *options.kept >= 0, "got ", options.kept.value_or(0),
                         " as the fraction of workspace that is kept, but it must be at least 0; "
                         "use 0 to keep nothing");
  if (shares_memory(session, options))
  {
    auto& product = session.products().template find<SharedProduct<T>>(call, [&] {
      return std::make_unique<SharedProduct<T>>(call, world.rank(), world.size(), world.cores(),
                                                options.shared_bytes);
    });
    product.run(world, session.shared(), most_kept(session, options, 1, world.size()),
                session.threads(), alpha, a, b, beta, c, report);
    report.chosen = product.text();
    return report_kept(report, session.shared().kept());
  }
  auto& product = session.products().template find<MessageProduct<T>>(
      call, [&] { return plan_in_messages<T>(session, call, options); });
  const BlasThreads of_each{session.threads()};
  product.run(world, alpha, a, b, beta, c, report);
  report.chosen = product.text();
  const double fraction = session.products().repeats() ? 3 : 0.5;
  report_kept(report, session.products().keep(most_kept(session, options, fraction, 1)));
}

}  // namespace detail

template <PblasScalar T>
void pgemm(const boost::mpi::communicator& comm, Op op_a, Op op_b, ProductSize size, T alpha,
           const BlockCyclicMatrix<const std::type_identity_t<T>>& a,
           const BlockCyclicMatrix<const std::type_identity_t<T>>& b, std::type_identity_t<T> beta,
           const BlockCyclicMatrix<std::type_identity_t<T>>& c, const PgemmOptions& options)
{
  auto& session = detail::PblasSession::of(comm);
  session.run([&] {
    const int rank = session.world().rank();
    const int ranks = session.world().size();
    const auto [m, n, k] = size;
    const bool reads = alpha != T{} && m != 0 && n != 0;
    detail::require_block_cyclic("A", a, op_shape(op_a, {m, k}), reads, rank, ranks);
    detail::require_block_cyclic("B", b, op_shape(op_b, {k, n}), reads, rank, ranks);
    detail::require_block_cyclic("C", c, {m, n}, true, rank, ranks);
    if (m == 0 || n == 0) return;
    if (!reads || k == 0)
    {
      if (beta != T{1})
        detail::scale_local(beta, detail::local_part(c.place, {m, n}, rank), {c.data, c.ld});
      return;
    }
    detail::require_apart("A", a, op_shape(op_a, {m, k}), c, {m, n}, rank);
    detail::require_apart("B", b, op_shape(op_b, {k, n}), c, {m, n}, rank);
    PgemmReport unused;
    PgemmReport& report = options.report != nullptr ? *options.report : unused;
    report = {};
    detail::run_product<T>(session, {op_a, op_b, size, a.place, b.place, c.place}, alpha,
                           {a.data, a.ld}, {b.data, b.ld}, beta, {c.data, c.ld}, options, report);
  });
}

}  // namespace cubist::CUBIST_ABI
