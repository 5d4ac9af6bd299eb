// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Computes C = alpha op(A) op(B) + beta C for block-cyclic matrices of ranks on several nodes,
// panel by panel on the program's own grid of P x Q ranks. C stays where it is.
//
//   C (M, N) block-cyclic    op(A) (M, K), op(B) (K, N) in any layouts
//
// For a panel k of columns of op(A) and rows of op(B), each rank gets op(A)_k for its rows of C,
// and op(B)_k for its columns of C, and adds their product to its C. Meanwhile messages of the next
// panels are in flight. Nothing else is sent, and nothing is converted.
//
// Elements that one rank receives if the matrices are aligned and not transposed: M K / P (1 - 1/Q)
// of A and K N / Q (1 - 1/P) of B. A node whose ranks are s columns and r rows of the grid receives
// r M K / P (1 - s/Q) and s K N / Q (1 - r/P). GemmPanelPlan counts them for other layouts.
// Source: van de Geijn, Watts, "SUMMA: scalable universal matrix multiplication algorithm",
// Concurrency: Practice and Experience 9 (1997).

#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cubist/comm/communicator.hpp>
#include <cubist/comm/mpi/communicator.hpp>
#include <cubist/core/block.hpp>
#include <cubist/core/error.hpp>
#include <cubist/core/matrix_view.hpp>
#include <cubist/core/scalar.hpp>
#include <cubist/engine/engine.hpp>
#include <cubist/engine/shapes.hpp>
#include <cubist/foreign/block_cyclic.hpp>
#include <cubist/foreign/conversion_plan.hpp>
#include <cubist/foreign/distribution.hpp>
#include <cubist/foreign/foreign_matrix.hpp>
#include <cubist/foreign/index_set.hpp>
#include <cubist/foreign/matrix_part.hpp>
#include <cubist/foreign/pgemm.hpp>
#include <cubist/foreign/triangular.hpp>
#include <cubist/memory/huge_pages.hpp>

#include "local_part.hpp"
#include "message_product.hpp"
#include "panel_matrix.hpp"
#include "product_arguments.hpp"
#include "product_cache.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// The place of a column of the grid among those whose ranks are on the same node, or of a row.
struct PanelShare
{
  std::size_t place = 0;
  std::size_t count = 1;

  friend bool operator==(const PanelShare&, const PanelShare&) = default;
};

/// Returns the shares of the columns of a grid, or of its rows. If nodes divide the rows of the
/// grid in different ways, nothing is shared.
[[nodiscard]] inline std::vector<PanelShare> shares_on_nodes(const ProcessGrid& grid, bool of_cols,
                                                             int ranks_of_node)
{
  const int n = of_cols ? grid.cols : grid.rows;
  const std::vector<PanelShare> nothing(static_cast<std::size_t>(n));
  std::vector<PanelShare> shares;
  for (int line = 0; line < (of_cols ? grid.rows : grid.cols); ++line)
  {
    std::vector<PanelShare> of_line;
    std::map<int, std::size_t> counts;
    const auto node = [&](int i) {
      return (of_cols ? grid.rank(line, i) : grid.rank(i, line)) / ranks_of_node;
    };
    for (int i = 0; i < n; ++i) of_line.push_back({counts[node(i)]++, 0});
    for (int i = 0; i < n; ++i) of_line[static_cast<std::size_t>(i)].count = counts[node(i)];
    if (line == 0) shares = of_line;
    if (of_line != shares) return nothing;
  }
  return shares;
}

/// The elements of A and of B that are sent for a product in panels.
struct PanelCost
{
  ConversionCost a;
  ConversionCost b;

  /// The most elements that one unit sends or receives.
  [[nodiscard]] std::size_t most() const
  {
    return std::max(a.sent, a.received) + std::max(b.sent, b.received);
  }
};

/// Where the panels of A and B go.
class GemmPanelPlan
{
  using Sets = PanelLayout::Sets;

  static constexpr std::size_t most_shares = 64;  // into which a panel is cut

 public:
  GemmPanelPlan(const ProductArguments& call, int ranks_of_node)
      : call_{call},
        rows_{call.c, {call.size.m, call.size.n}, true},
        cols_{call.c, {call.size.m, call.size.n}, false},
        of_cols_{shares_on_nodes(rows_.grid(), true, ranks_of_node)},
        of_rows_{shares_on_nodes(rows_.grid(), false, ranks_of_node)}
  {
    const std::size_t k = call.size.k;
    depth_ = panel_depth(k, std::max(rows_.parts(), cols_.parts()));
    // All shares of a panel have the same size.
    std::size_t counts = 1;
    for (const auto* shares : {&of_cols_, &of_rows_})
      for (const PanelShare& s : *shares) counts = std::lcm(counts, s.count);
    if (counts > most_shares)
    {
      of_cols_.assign(of_cols_.size(), {});
      of_rows_.assign(of_rows_.size(), {});
      counts = 1;
    }
    depth_ = pad(depth_, counts);
    panels_ = cut_into_panels(k, depth_);
    sets_a_ = sets(of_cols_);
    sets_b_ = sets(of_rows_);
  }

  [[nodiscard]] const ProductArguments& call() const { return call_; }
  [[nodiscard]] const std::vector<Lines>& panels() const { return panels_; }
  [[nodiscard]] std::size_t depth() const { return depth_; }
  [[nodiscard]] bool shares_a() const { return is_shared(of_cols_); }
  [[nodiscard]] bool shares_b() const { return is_shared(of_rows_); }
  /// Returns the share of a rank of the grid in the panels of A for its rows of C.
  [[nodiscard]] PanelShare share_of_a(int rank) const
  {
    return of_cols_[static_cast<std::size_t>(rows_.grid().col(rank))];
  }
  [[nodiscard]] PanelShare share_of_b(int rank) const
  {
    return of_rows_[static_cast<std::size_t>(rows_.grid().row(rank))];
  }

  /// Makes the distribution of a panel of op(A), without what ranks of a node gather from each
  /// other.
  [[nodiscard]] Distribution of_a(Lines k) const
  {
    return rows_.by_lines({0, rows_.lines()}, k.size, in_panel(sets_a_, k));
  }
  /// Makes that of op(B). Shares are rows, which are consecutive if it is stored by rows.
  [[nodiscard]] Distribution of_b(Lines k) const
  {
    return cols_.by_lines({0, cols_.lines()}, k.size, in_panel(sets_b_, k),
                          shares_b() ? StorageOrder::row_major : StorageOrder::column_major);
  }

  /// Returns the cost of the panels, without what ranks of a node gather from each other. Sends
  /// nothing.
  /// @param ranks_of_unit as in conversion_cost
  [[nodiscard]] PanelCost cost(int ranks_of_unit) const
  {
    const auto [m, n, k] = call_.size;
    const auto of = [&](const SubMatrixPlace& x, Op op, Shape of_op, const Distribution& to) {
      return conversion_cost(Distribution{x, op_shape(op, of_op)}, to, op, MatrixPart::all,
                             ranks_of_unit);
    };
    return {of(call_.a, call_.op_a, {m, k}, of_a({0, k})),
            of(call_.b, call_.op_b, {k, n}, of_b({0, k}))};
  }

 private:
  static bool is_shared(const std::vector<PanelShare>& shares)
  {
    return std::ranges::any_of(shares, [](const PanelShare& s) { return s.count > 1; });
  }
  /// Returns the inner indices of the shares.
  [[nodiscard]] Sets sets(const std::vector<PanelShare>& shares) const
  {
    if (!is_shared(shares)) return {IndexSet::interval(0, call_.size.k)};
    Sets all;
    for (const PanelShare& s : shares)
      all.push_back(
          IndexSet::cyclic(call_.size.k, depth_ / s.count, depth_ / s.count, s.place, s.count));
    return all;
  }
  static Sets in_panel(const Sets& all, Lines k)
  {
    Sets sets = windows(all, k.begin, k.size);
    for (IndexSet& set : sets) set = set.packed();
    return sets;
  }

  ProductArguments call_;
  PanelLayout rows_;  // C by rows
  PanelLayout cols_;  // and by columns
  std::vector<PanelShare> of_cols_;
  std::vector<PanelShare> of_rows_;
  std::size_t depth_;
  std::vector<Lines> panels_;
  Sets sets_a_;
  Sets sets_b_;
};

/// The ranks of a node that gather panels from each other.
template <Communicator C>
struct PanelGroups
{
  std::optional<C> of_a;
  std::optional<C> of_b;

  /// All ranks of the world make it.
  PanelGroups(C& world, const GemmPanelPlan& plan)
  {
    const ProcessGrid grid = plan.call().c.layout.grid;
    // Its lowest rank is the colour of a group.
    const auto split = [&](bool of_cols) {
      return split_by(world, [&plan, grid, of_cols](int rank) {
        if (rank >= grid.size()) return rank;
        const PanelShare s = of_cols ? plan.share_of_a(rank) : plan.share_of_b(rank);
        const auto place = static_cast<int>(s.place);
        const int row = grid.row(rank);
        const int col = grid.col(rank);
        return of_cols ? grid.rank(row, col - place) : grid.rank(row - place, col);
      });
    };
    if (plan.shares_a()) of_a.emplace(split(true));
    if (plan.shares_b()) of_b.emplace(split(false));
  }
};

/// gemm on the grid of C.
template <Communicator C, PblasScalar T>
class GemmPanels
{
 public:
  /// All ranks of the world make it; those outside the grid have no array.
  GemmPanels(C& world, const GemmPanelPlan& plan, const PanelGroups<C>& groups,
             LocalArray<const T> a, LocalArray<const T> b, LocalArray<T> c)
      : world_{world},
        plan_{plan},
        groups_{groups},
        a_{world, Distribution{plan.call().a, op_shape(plan.call().op_a, {size().m, size().k})},
           a.data, a.ld},
        b_{world, Distribution{plan.call().b, op_shape(plan.call().op_b, {size().k, size().n})},
           b.data, b.ld}
  {
    const SubMatrixPlace& place = plan.call().c;
    const LocalPart part = local_part(place, {size().m, size().n}, world.rank());
    held_ = part.shape;
    if (held_.size() > 0)
      out_ = {c.data + part.row + part.col * c.ld, part.shape.cols, part.shape.rows, c.ld};
  }

  void run(T alpha, T beta)
  {
    const std::size_t panels = plan_.panels().size();
    for (std::size_t s = 0; s < ahead; ++s) start(s);
    for (std::size_t s = 0; s < panels; ++s)
    {
      start(s + ahead);
      // BLAS gets the transposes, which are stored by rows.
      const std::size_t k = plan_.panels()[s].size;
      const auto [m, n] = held_;
      const T* const a = finish(of_a_, groups_.of_a, m, gathered_a_);
      const T* const b = finish(of_b_, groups_.of_b, n, gathered_b_);
      const bool by_rows = plan_.shares_b();
      if (out_.size() > 0)
        multiply_in_parts(by_rows ? Op::transpose : Op::none, Op::none, alpha,
                          MatrixView<const T>{b, by_rows ? Shape{k, n} : Shape{n, k}},
                          MatrixView<const T>{a, {k, m}}, s == 0 ? beta : T{1}, out_, [this] {
                            of_a_.back().advance();
                            of_b_.back().advance();
                          });
      of_a_.pop_front();
      of_b_.pop_front();
    }
  }

 private:
  using InFlight = std::deque<MatrixInFlight<C, T>>;
  using Memory = std::vector<T, HugePages<T>>;

  static constexpr std::size_t ahead = 2;  // panels in flight

  [[nodiscard]] const ProductSize& size() const { return plan_.call().size; }

  void start(std::size_t panel)
  {
    if (panel >= plan_.panels().size()) return;
    const Lines k = plan_.panels()[panel];
    const auto [op_a, op_b] = std::pair{plan_.call().op_a, plan_.call().op_b};
    of_a_.emplace_back(world_,
                       op_a == Op::none ? a_.submatrix(0, k.begin, {size().m, k.size})
                                        : a_.submatrix(k.begin, 0, {k.size, size().m}),
                       op_a, plan_.of_a(k));
    of_b_.emplace_back(world_,
                       op_b == Op::none ? b_.submatrix(k.begin, 0, {k.size, size().n})
                                        : b_.submatrix(0, k.begin, {size().n, k.size}),
                       op_b, plan_.of_b(k));
  }

  /// Returns a panel when it is complete.
  /// @param lines this rank's rows or columns of C, as many as those of all ranks of the group
  /// @param gathered memory for the panel
  const T* finish(InFlight& in_flight, std::optional<C>& group, std::size_t lines, Memory& gathered)
  {
    Memory& mine = in_flight.front().finish().memory();
    if (!group || lines == 0) return mine.data();
    const auto ranks = static_cast<std::size_t>(group->size());
    mine.resize(plan_.depth() / ranks * lines);
    gathered.resize(mine.size() * ranks);
    group->all_gather(mine, gathered);
    return gathered.data();
  }

  C& world_;
  const GemmPanelPlan& plan_;
  PanelGroups<C> groups_;
  ForeignMatrix<const T> a_;
  ForeignMatrix<const T> b_;
  Shape held_;         // this rank's rows and columns of C
  MatrixView<T> out_;  // the transpose of its elements of C
  InFlight of_a_;
  InFlight of_b_;
  Memory gathered_a_;
  Memory gathered_b_;
};

/// A plan to compute a product in panels. It keeps no memory.
template <PblasScalar T>
class PanelProduct final : public MessageProduct<T>
{
 public:
  PanelProduct(const GemmPanelPlan& plan, const PanelGroups<MpiCommunicator>& groups)
      : plan_{plan},
        groups_{groups}
  {
  }

  void run(MpiCommunicator& world, T alpha, LocalArray<const T> a, LocalArray<const T> b, T beta,
           LocalArray<T> c, PgemmReport& report) override
  {
    GemmPanels<MpiCommunicator, T> panels{world, plan_, groups_, a, b, c};
    time_into(report.product, [&] { panels.run(alpha, beta); });
  }
  [[nodiscard]] std::string text() const override
  {
    const std::size_t panels = plan_.panels().size();
    return join({"on the grid of C, ", panels, panels == 1 ? " panel of K" : " panels of K"});
  }

 private:
  GemmPanelPlan plan_;
  PanelGroups<MpiCommunicator> groups_;
};

}  // namespace cubist::CUBIST_ABI::detail
