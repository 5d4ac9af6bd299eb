// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Computes C = alpha op(A) op(B) + beta C of block-cyclic matrices whose ranks share memory.
//
//   op(A) (M, K), op(B) (K, N), C (M, N): sub-matrices of block-cyclic matrices, column-major
//
//   1. each rank copies its elements of A and B, once, to memory that all ranks map: a panel
//      (rows, K) of op(A) for each group of rows of C, a panel (K, columns) of op(B) for each group
//      of columns;
//   2. each rank multiplies one panel of A by one of B, in one product of BLAS.
//
// If the groups are the rows and columns of C that the processes of the grid have, each rank
// multiplies into its own array of C. Indices inside a group may be in any order, so they are in
// the local order of C, and C is not converted. If that would leave ranks idle or products thin,
// groups are equal parts of M and N, and K may be cut, too. Each rank then multiplies into shared
// memory, and afterwards adds up its elements of C. The way with the least predicted time is
// chosen.
//
// If the panels would be larger than a limit, K is cut into slabs, which are multiplied one after
// the other.
//
// Memory: A and B once, and in the second way C for each part of K; together on all ranks.
// Words: none.

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cubist/algorithm/direct/gemm_times.hpp"
#include "cubist/algorithm/direct/work_assignment.hpp"
#include "cubist/comm/mpi/communicator.hpp"
#include "cubist/core/block.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/host/blas_threads.hpp"
#include "cubist/engine/host/engine.hpp"
#include "cubist/foreign/copy_blocks.hpp"
#include "cubist/machine/gemm_rates.hpp"
#include "cubist/memory/leading_dimension.hpp"
#include "cubist/pblas/cyclic_dimension.hpp"
#include "cubist/pblas/product_arguments.hpp"
#include "cubist/pblas/product_cache.hpp"
#include "cubist/pblas/shared_block.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Consecutive indices of a local array, and where the first of them lies in shared memory.
struct CopyRun
{
  std::size_t local = 0;
  std::size_t shared = 0;  // an offset in elements
  std::size_t length = 0;
};

/// How the indices of a dimension of C are grouped.
class IndexGroups
{
 public:
  /// Groups indices by the part of the grid that has them, in its local order.
  IndexGroups(const CyclicDimension& d, std::size_t begin, std::size_t size)
      : dimension_{d}, begin_{begin}, size_{size}, count_{d.replicated()
                                                              ? std::size_t{1}
                                                              : static_cast<std::size_t>(d.parts)}
  {
    for (std::size_t g = 0; g < count_; ++g) largest_ = std::max(largest_, group_size(g));
  }
  /// Groups indices in equal ranges.
  IndexGroups(std::size_t size, std::size_t count)
      : size_{size}, count_{count}, largest_{ceil_div(size, count)}
  {
  }

  [[nodiscard]] std::size_t count() const { return count_; }
  /// The size of the largest group.
  [[nodiscard]] std::size_t largest() const { return largest_; }
  [[nodiscard]] std::size_t group_size(std::size_t g) const
  {
    if (!by_part()) return std::min(largest_, size_ - std::min(size_, g * largest_));
    const int part = static_cast<int>(g);
    return dimension_.count(part, begin_ + size_) - dimension_.count(part, begin_);
  }
  /// The group of the indices that a part of the grid has.
  [[nodiscard]] std::size_t group_of_part(int part) const
  {
    return count_ == 1 ? 0 : static_cast<std::size_t>(part);
  }

  /// Calls f(index, group, place in the group, length) for pieces of [begin, end).
  template <class F>
  void for_each_piece(std::size_t begin, std::size_t end, F f) const
  {
    while (begin < end)
    {
      std::size_t group = 0;
      std::size_t place = begin;
      std::size_t stop = end;
      if (by_part() && count_ > 1)
      {
        const int part = dimension_.owner(begin_ + begin);
        group = static_cast<std::size_t>(part);
        place = dimension_.count(part, begin_ + begin) - dimension_.count(part, begin_);
        stop = std::min(end, dimension_.end_of_block(begin_ + begin) - begin_);
      }
      else if (!by_part())
      {
        group = begin / largest_;
        place = begin % largest_;
        stop = std::min(end, (group + 1) * largest_);
      }
      f(begin, group, place, stop - begin);
      begin = stop;
    }
  }

 private:
  [[nodiscard]] bool by_part() const { return dimension_.parts > 0; }

  CyclicDimension dimension_{1, 1, 0, 0};
  std::size_t begin_ = 0;
  std::size_t size_ = 0;
  std::size_t count_ = 1;
  std::size_t largest_ = 0;
};

/// Adds a run, or lengthens the last one.
inline void add_run(std::vector<CopyRun>& runs, CopyRun next, std::size_t stride)
{
  if (next.length == 0) return;
  if (!runs.empty())
  {
    auto& last = runs.back();
    if (last.local + last.length == next.local && last.shared + last.length * stride == next.shared)
    {
      last.length += next.length;
      return;
    }
  }
  runs.push_back(next);
}

/// Where a part's indices of a grouped dimension go.
/// @param stride, group_stride the distances of two indices, and of two groups
[[nodiscard]] inline std::vector<CopyRun> grouped_runs(const CyclicDimension& d, int part,
                                                       std::size_t begin, std::size_t size,
                                                       const IndexGroups& groups,
                                                       std::size_t stride, std::size_t group_stride)
{
  std::vector<CopyRun> runs;
  d.for_each_run(part, begin, begin + size, [&](std::size_t at, std::size_t local, std::size_t n) {
    groups.for_each_piece(
        at - begin, at - begin + n,
        [&](std::size_t i, std::size_t group, std::size_t place, std::size_t l) {
          add_run(runs, {local + (i - (at - begin)), group * group_stride + place * stride, l},
                  stride);
        });
  });
  return runs;
}

/// Returns the runs of the indices [from, to) of the sub-matrix, in their order.
[[nodiscard]] inline std::vector<CopyRun> ordered_runs(const CyclicDimension& d, int part,
                                                       std::size_t begin, std::size_t from,
                                                       std::size_t to, std::size_t stride)
{
  std::vector<CopyRun> runs;
  d.for_each_run(part, begin + from, begin + to,
                 [&](std::size_t at, std::size_t local, std::size_t n) {
                   add_run(runs, {local, (at - begin - from) * stride, n}, stride);
                 });
  return runs;
}

/// The panels of one operand in shared memory.
struct OperandPanels
{
  std::size_t offset = 0;  // the offset of the first panel
  std::size_t panel = 0;   // elements from one panel to the next
  std::size_t ld = 0;      // of the array of a panel, which is column-major as the matrix is
};

template <Scalar T>
class SharedProduct final : public PlannedProduct
{
 public:
  static constexpr std::size_t scalar_bytes = sizeof(T);

  /// @param ranks of the communicator  @param cores that they share
  /// @param limit bytes of the panels, on all ranks together
  SharedProduct(const ProductArguments& call, int rank, int ranks, int cores, std::size_t limit)
      : op_a_{call.op_a}, op_b_{call.op_b}, size_{call.size}, rank_{rank}
  {
    const auto& grid = call.c.layout.grid;
    const auto rows = CyclicDimension::rows(call.c.layout);
    const auto cols = CyclicDimension::cols(call.c.layout);
    choose_way({rows, call.c.i, size_.m}, {cols, call.c.j, size_.n}, grid.size(), ranks, cores);

    const std::size_t per_index =
        row_groups_.count() * row_groups_.largest() + col_groups_.count() * col_groups_.largest();
    const std::size_t deepest = std::max(least_depth, limit / sizeof(T) / per_index);
    depth_ = ceil_div(size_.k, ceil_div(size_.k, deepest));

    a_ = place_panels(op_a_ == Op::none, row_groups_);
    b_ = place_panels(op_b_ != Op::none, col_groups_);
    for (std::size_t k = 0; k < size_.k; k += depth_) slabs_.push_back(make_slab(call, k));

    if (cut_)
    {
      c_.ld = padded_leading_dimension<T>(row_groups_.largest());
      c_.panel = c_.ld * col_groups_.largest();
      c_.offset = elements_;
      elements_ += c_.panel * cut_->workers();
    }
    if (rank >= grid.size()) return;
    const int row = grid.row(rank);
    const int col = grid.col(rank);
    if (cut_)
    {
      c_rows_ = grouped_runs(rows, row, call.c.i, size_.m, row_groups_, 1, c_.panel);
      c_cols_ = grouped_runs(cols, col, call.c.j, size_.n, col_groups_, c_.ld, c_.panel * cut_->m);
      return;
    }
    const std::size_t i = row_groups_.group_of_part(row);
    const std::size_t j = col_groups_.group_of_part(col);
    own_ = {i, j, {row_groups_.group_size(i), col_groups_.group_size(j)}};
    own_row_ = rows.count(row, call.c.i);
    own_col_ = cols.count(col, call.c.j);
  }

  /// Bytes of shared memory that a call uses, on all ranks together; the plan keeps none.
  [[nodiscard]] std::size_t shared_bytes() const { return elements_ * sizeof(T); }
  /// The parts into which m, n and k are cut; empty if each rank multiplies into its own C.
  [[nodiscard]] const std::optional<WorkCut>& cut() const { return cut_; }
  [[nodiscard]] std::size_t slabs() const { return slabs_.size(); }
  [[nodiscard]] std::string text() const override
  {
    return join({"in shared memory, ",
                 cut_ ? join({"cut into ", cut_->m, " x ", cut_->n, " x ", cut_->k, " parts"})
                      : std::string{"each process into its own C"},
                 ", ", slabs_.size(), slabs_.size() == 1 ? " slab of K, " : " slabs of K, ",
                 (shared_bytes() + (1U << 20U) - 1) >> 20U, " MiB of workspace"});
  }

  /// All ranks of the world call it; those outside of a grid have no array.
  /// @param threads of BLAS for each rank, while all of them compute
  /// @param kept the most bytes that the block keeps for later products
  /// @throws CommunicationError, on all ranks, where the system has not so much shared memory
  void run(MpiCommunicator& world, SharedBlock& block, std::size_t kept, int threads, T alpha,
           LocalColumns<const T> a, LocalColumns<const T> b, T beta, LocalColumns<T> c,
           PgemmReport& report) const
  {
    T* const shared = reinterpret_cast<T*>(block.begin(world, shared_bytes()));
    require<CommunicationError>(
        shared != nullptr, "got a product that needs ", shared_bytes(),
        " bytes of memory that its ranks share, which the system refused, so it cannot be "
        "computed; free memory, or lower the limit of its workspace");
    const BlasThreads of_each{threads};
    bool first = true;
    for (const auto& slab : slabs_)
    {
      world.barrier();  // no rank reads the panels of the last slab, or product, any more
      time_into(report.conversion, [&] {
        copy_in(slab.a_rows, slab.a_cols, a, shared + a_.offset, a_.ld);
        copy_in(slab.b_rows, slab.b_cols, b, shared + b_.offset, b_.ld);
      });
      world.barrier();
      time_into(report.product, [&] {
        if (cut_)
          multiply_part(slab.depth, shared, first);
        else if (own_.shape.size() > 0)
          multiply(own_.i, own_.j, {0, slab.depth}, shared, alpha, first ? beta : T{1},
                   {c.data + own_row_ + own_col_ * c.ld, own_.shape.cols, own_.shape.rows, c.ld});
      });
      first = false;
    }
    if (cut_)
    {
      world.barrier();
      time_into(report.conversion, [&] { add_up(shared + c_.offset, alpha, beta, c); });
    }
    block.end(kept);
  }

 private:
  /// The panels of an operand in shared memory, or the parts of C.
  struct Panels
  {
    std::size_t offset = 0;  // the offset of the first panel
    std::size_t panel = 0;   // elements from one panel to the next
    std::size_t ld = 0;      // the leading dimension of the column-major array of a panel
  };

  /// Consecutive indices of K, and the elements that this rank copies for them.
  struct Slab
  {
    std::size_t depth = 0;
    std::vector<CopyRun> a_rows;  // the rows of A as it is stored
    std::vector<CopyRun> a_cols;
    std::vector<CopyRun> b_rows;
    std::vector<CopyRun> b_cols;
  };

  struct Depths
  {
    std::size_t begin;
    std::size_t size;
  };

  static constexpr std::size_t least_depth = 256;

  /// Uses the groups that C has, or a cut if that is predicted to take less time.
  void choose_way(IndexGroups rows, IndexGroups cols, int holders, int ranks, int cores)
  {
    const auto times = GemmTimes::of(sizeof(T));
    const double complex = ComplexScalar<T> ? 4 : 1;
    const auto product_time = [&](ProductSize s) {
      return times(s) + (complex - 1) * double(s.m) * double(s.n) * double(s.k) / times.products;
    };
    double longest = 0;
    double total = 0;
    for (std::size_t i = 0; i < rows.count(); ++i)
      for (std::size_t j = 0; j < cols.count(); ++j)
      {
        const ProductSize size{rows.group_size(i), cols.group_size(j), size_.k};
        if (size.m == 0 || size.n == 0) continue;
        longest = std::max(longest, product_time(size));
        total += product_time(size);
      }
    total *= double(holders) / double(rows.count() * cols.count());  // replicas compute it, too
    double least = std::max(longest, total / std::min(holders, cores));
    const auto consider = [&](int workers) {
      const double turns = std::max(1.0, double(workers) / cores);
      for (const WorkCut& cut : work_cuts(static_cast<std::size_t>(workers)))
      {
        if (cut.m > size_.m || cut.n > size_.n || cut.k > size_.k) continue;
        const ProductSize part{ceil_div(size_.m, cut.m), ceil_div(size_.n, cut.n),
                               ceil_div(size_.k, cut.k)};
        const double copies = (cut.k > 1 ? 4 : 3) * times.copy;
        const double time = turns * (product_time(part) + copies * double(part.m * part.n)) +
                            GemmRates{}.window * ranks;
        if (time >= least) continue;
        least = time;
        cut_ = cut;
      }
    };
    if (ranks > 1) consider(ranks);
    if (ranks > cores) consider(cores);
    row_groups_ = cut_ ? IndexGroups{size_.m, cut_->m} : rows;
    col_groups_ = cut_ ? IndexGroups{size_.n, cut_->n} : cols;
  }

  /// @param groups_in_columns whether a column of the stored matrix has the grouped indices
  [[nodiscard]] Panels place_panels(bool groups_in_columns, const IndexGroups& groups)
  {
    const std::size_t in_column = groups_in_columns ? groups.largest() : depth_;
    const std::size_t columns = groups_in_columns ? depth_ : groups.largest();
    const std::size_t ld = padded_leading_dimension<T>(in_column);
    const std::size_t panel = pad(ld * columns, 4096 / sizeof(T));
    const std::size_t offset = elements_;
    elements_ += panel * groups.count();
    return {offset, panel, ld};
  }

  [[nodiscard]] Slab make_slab(const ProductArguments& call, std::size_t k) const
  {
    Slab slab;
    const std::size_t to = std::min(k + depth_, size_.k);
    slab.depth = to - k;
    const auto add = [&](const SubMatrixPlace& x, bool groups_in_columns, std::size_t size,
                         const IndexGroups& groups, const Panels& p, auto& rows, auto& cols) {
      const auto& grid = x.layout.grid;
      if (rank_ >= grid.size()) return;
      const auto of_rows = shared_reading(CyclicDimension::rows(x.layout));
      const auto of_cols = shared_reading(CyclicDimension::cols(x.layout));
      const int row = grid.row(rank_);
      const int col = grid.col(rank_);
      if (groups_in_columns)
      {
        rows = grouped_runs(of_rows, row, x.i, size, groups, 1, p.panel);
        cols = ordered_runs(of_cols, col, x.j, k, to, p.ld);
      }
      else
      {
        rows = ordered_runs(of_rows, row, x.i, k, to, 1);
        cols = grouped_runs(of_cols, col, x.j, size, groups, p.ld, p.panel);
      }
    };
    add(call.a, op_a_ == Op::none, size_.m, row_groups_, a_, slab.a_rows, slab.a_cols);
    add(call.b, op_b_ != Op::none, size_.n, col_groups_, b_, slab.b_rows, slab.b_cols);
    return slab;
  }

  static void copy_in(const std::vector<CopyRun>& rows, const std::vector<CopyRun>& cols,
                      LocalColumns<const T> from, T* to, std::size_t ld)
  {
    for (const auto& col : cols)
      for (std::size_t c = 0; c < col.length; ++c)
      {
        const T* const in = from.data + (col.local + c) * from.ld;
        T* const out = to + col.shared + c * ld;
        for (const auto& row : rows) std::copy_n(in + row.local, row.length, out + row.shared);
      }
  }

  /// C^T (columns of group j, rows of group i) = alpha op(B)^T op(A)^T + beta C^T, summed over some
  /// indices of the slab. Column-major arrays are row-major ones of the transpose.
  void multiply(std::size_t i, std::size_t j, Depths k, const T* shared, T alpha, T beta,
                MatrixView<T> c) const
  {
    const auto stored = [&](const Panels& p, std::size_t group, std::size_t size,
                            bool groups_in_columns) -> MatrixView<const T> {
      const T* const data = shared + p.offset + group * p.panel;
      if (groups_in_columns) return {data + k.begin * p.ld, k.size, size, p.ld};
      return {data + k.begin, size, k.size, p.ld};
    };
    HostEngine{}.gemm(op_b_, op_a_, alpha, stored(b_, j, c.rows(), op_b_ != Op::none),
                      stored(a_, i, c.cols(), op_a_ == Op::none), beta, c);
  }

  /// This rank's part of a cut, in shared memory.
  void multiply_part(std::size_t depth, T* shared, bool first) const
  {
    const auto worker = static_cast<std::size_t>(rank_);
    if (worker >= cut_->workers()) return;
    const std::size_t i = worker % cut_->m;
    const std::size_t j = worker / cut_->m % cut_->n;
    const Range k = block_range(depth, pad(depth, cut_->k), cut_->k, worker / cut_->m / cut_->n);
    multiply(i, j, {k.offset, k.valid}, shared, T{1}, first ? T{} : T{1},
             {shared + c_.offset + worker * c_.panel, col_groups_.group_size(j),
              row_groups_.group_size(i), c_.ld});
  }

  /// C = alpha (the sum of its parts) + beta C, for the elements of this rank.
  void add_up(const T* parts, T alpha, T beta, LocalColumns<T> c) const
  {
    const Combine<T> combine{alpha, false, beta};
    for (const auto& col : c_cols_)
      for (std::size_t at = 0; at < col.length; ++at)
        for (const auto& row : c_rows_)
          add_up(parts + col.shared + at * c_.ld + row.shared,
                 c.data + (col.local + at) * c.ld + row.local, row.length, combine);
  }
  void add_up(const T* part, T* out, std::size_t n, const Combine<T>& combine) const
  {
    if (cut_->k == 1) return copy_rows(part, 0, out, 0, 1, n, combine);
    const std::size_t next_part = c_.panel * cut_->m * cut_->n;
    constexpr std::size_t most = 512;  // sums in the first cache
    std::array<T, most> sums;
    for (std::size_t first = 0; first < n; first += most)
    {
      const std::size_t size = std::min(most, n - first);
      std::copy_n(part + first, size, sums.data());
      for (std::size_t k = 1; k < cut_->k; ++k)
      {
        const T* const next = part + first + k * next_part;
        for (std::size_t i = 0; i < size; ++i) sums[i] += next[i];
      }
      copy_rows(sums.data(), 0, out + first, 0, 1, size, combine);
    }
  }

  Op op_a_;
  Op op_b_;
  ProductSize size_;
  int rank_;
  std::optional<WorkCut> cut_;
  IndexGroups row_groups_{1, 1};
  IndexGroups col_groups_{1, 1};
  std::size_t depth_ = 0;  // the depth of a slab
  std::vector<Slab> slabs_;
  Panels a_;
  Panels b_;
  Panels c_;                  // the panels of a cut
  std::size_t elements_ = 0;  // elements in shared memory
  std::vector<CopyRun> c_rows_;
  std::vector<CopyRun> c_cols_;
  Rectangle own_;  // without a cut: the groups of this rank's part of C, and its shape
  std::size_t own_row_ = 0;
  std::size_t own_col_ = 0;
};

}  // namespace cubist::CUBIST_ABI::detail
