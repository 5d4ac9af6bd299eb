// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Computes C = alpha op(A) op(B) + beta C for block-cyclic matrices whose ranks share memory.
//
//   op(A) (M, K), op(B) (K, N), C (M, N): sub-matrices of block-cyclic matrices, column-major
//
//   1. each rank copies its elements of A and B, once, to memory that all ranks map: a panel
//      (rows, K) of op(A) for each group of rows of C, a panel (K, columns) of op(B) for each group
//      of columns;
//   2. each rank multiplies one panel of A by one of B, in one call of BLAS.
//
// If the groups are the rows and columns of C that the processes of the grid hold, each rank
// multiplies into its own array of C. Indices inside a group may be in any order, so they are in
// the local order of C, and C is not converted. If that would leave ranks idle or products thin,
// groups are equal parts of M and N, and K may be cut, too. Each rank then multiplies into shared
// memory, and afterwards adds up its elements of C. The way that is predicted to be the fastest is
// chosen.
//
// If only a triangle of C is computed, as for syrk, a rank multiplies what is inside it
// (foreign/triangular.hpp). Then only K is cut into equal parts, because equal parts of M and N
// would be unequal work.
//
// If the panels would exceed a limit, K is cut into slabs, which are multiplied one after the
// other.
//
// Memory, on all ranks together: A and B once, and in the second way C for each part of K.
// Elements sent: none.

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cubist/algorithm/direct/gemm_times.hpp>
#include <cubist/algorithm/direct/work_assignment.hpp>
#include <cubist/comm/mpi/communicator.hpp>
#include <cubist/core/block.hpp>
#include <cubist/core/error.hpp>
#include <cubist/core/matrix_view.hpp>
#include <cubist/core/scalar.hpp>
#include <cubist/engine/host/blas_threads.hpp>
#include <cubist/engine/host/engine.hpp>
#include <cubist/foreign/block_cyclic.hpp>
#include <cubist/foreign/copy_blocks.hpp>
#include <cubist/foreign/foreign_matrix.hpp>
#include <cubist/foreign/index_set.hpp>
#include <cubist/foreign/matrix_part.hpp>
#include <cubist/foreign/pgemm.hpp>
#include <cubist/foreign/triangular.hpp>
#include <cubist/machine/gemm_rates.hpp>
#include <cubist/memory/leading_dimension.hpp>

#include "local_part.hpp"
#include "move_to_core.hpp"
#include "product_arguments.hpp"
#include "product_cache.hpp"
#include "shared_block.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// The groups of indices of a dimension of C, each of them packed.
using IndexGroups = std::vector<IndexSet>;

/// Groups the indices of a sub-matrix by the part of the grid that holds them, in its local order.
[[nodiscard]] inline IndexGroups groups_by_part(IndexGroups sets, std::size_t begin,
                                                std::size_t size)
{
  for (IndexSet& set : sets) set = set.window(begin, size).packed();
  return sets;
}

/// Groups indices in equal ranges.
[[nodiscard]] inline IndexGroups equal_groups(std::size_t size, std::size_t count)
{
  IndexGroups groups;
  for (std::size_t g = 0; g < count; ++g)
  {
    const Range r = block_range(size, pad(size, count), count, g);
    groups.push_back(IndexSet::interval(r.offset, r.valid));
  }
  return groups;
}

/// Returns the size of the largest group.
[[nodiscard]] inline std::size_t largest(const IndexGroups& groups)
{
  std::size_t most = 0;
  for (const IndexSet& group : groups) most = std::max(most, group.size());
  return most;
}

/// Returns the runs of indices that a set shares with groups, in the order of the set's memory; the
/// set is the source.
/// @param stride the distance from one group to the next in the target
[[nodiscard]] inline std::vector<CommonRun> runs_into(const IndexGroups& groups, std::size_t stride,
                                                      const IndexSet& set)
{
  std::vector<CommonRun> runs;
  for (std::size_t g = 0; g < groups.size(); ++g)
    add_common_runs(runs, set, groups[g].packed(g * stride));
  std::sort(runs.begin(), runs.end(),
            [](const CommonRun& a, const CommonRun& b) { return a.source < b.source; });
  return runs;
}
/// Returns the runs of indices that a set shares with groups; the groups are the source.
[[nodiscard]] inline std::vector<CommonRun> runs_from(const IndexGroups& groups, std::size_t stride,
                                                      const IndexSet& set)
{
  std::vector<CommonRun> runs = runs_into(groups, stride, set);
  for (CommonRun& run : runs) std::swap(run.source, run.target);
  return runs;
}

template <Scalar T>
class SharedProduct final : public PlannedProduct
{
 public:
  static constexpr std::size_t scalar_bytes = sizeof(T);

  /// @param ranks the number of ranks of the communicator  @param cores the cores that they share
  /// @param limit the maximum size of the panels in bytes, on all ranks together
  SharedProduct(const ProductArguments& call, int rank, int ranks, int cores, std::size_t limit)
      : op_a_{call.op_a},
        op_b_{call.op_b},
        size_{call.size},
        part_{call.part},
        rank_{rank},
        moves_{is_worth_moving(ranks, cores, double(size_.m) * double(size_.n) * double(size_.k))}
  {
    const auto& grid = call.c.layout.grid;
    choose_way(groups_by_part(row_sets(call.c.layout), call.c.i, size_.m),
               groups_by_part(col_sets(call.c.layout), call.c.j, size_.n), grid.size(), ranks,
               cores);

    const std::size_t per_index =
        row_groups_.size() * largest(row_groups_) + col_groups_.size() * largest(col_groups_);
    const std::size_t deepest = std::max(least_depth, limit / sizeof(T) / per_index);
    depth_ = ceil_div(size_.k, ceil_div(size_.k, deepest));

    // If the rows and columns of C are in the same groups, panels of op(A) serve for op(B), too.
    const bool is_a_twice = part_ != MatrixPart::all && row_groups_ == col_groups_;
    a_ = place_panels(op_a_ == Op::none, row_groups_);
    b_ = is_a_twice ? a_ : place_panels(op_b_ != Op::none, col_groups_);
    for (std::size_t k = 0; k < size_.k; k += depth_)
    {
      slabs_.push_back(make_slab(call, k));
      if (is_a_twice) slabs_.back().b = {};
    }

    if (cut_)
    {
      c_.ld = padded_leading_dimension<T>(largest(row_groups_));
      c_.panel = c_.ld * largest(col_groups_);
      c_.offset = elements_;
      elements_ += c_.panel * cut_->workers();
      find_indices(row_groups_[0], col_groups_[0]);
    }
    if (rank >= grid.size()) return;
    const auto [rows, cols] = local_sets(call.c, {size_.m, size_.n}, rank);
    if (cut_)
    {
      c_blocks_ = {runs_from(col_groups_, cut_->m * c_.panel / c_.ld, cols),
                   runs_from(row_groups_, c_.panel, rows)};
      return;
    }
    own_ = {row_groups_.size() == 1 ? 0 : static_cast<std::size_t>(grid.row(rank)),
            col_groups_.size() == 1 ? 0 : static_cast<std::size_t>(grid.col(rank)),
            {rows.size(), cols.size()}};
    find_indices(rows, cols);
    own_row_ = rows.first_position();
    own_col_ = cols.first_position();
  }

  /// The bytes of shared memory that a call uses, on all ranks together; the plan keeps none.
  [[nodiscard]] std::size_t shared_bytes() const { return elements_ * sizeof(T); }
  /// The number of parts into which m, n and k are cut; empty if each rank multiplies into its own
  /// C.
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

  /// Computes the product. All ranks of the world call it; those outside the grid have no array.
  /// @param threads the number of BLAS threads of each rank, while all ranks compute
  /// @param kept the maximum number of bytes that the block keeps for later products
  /// @throws CommunicationError, on all ranks, if the system does not have enough shared memory
  void run(MpiCommunicator& world, SharedBlock& block, std::size_t kept, int threads, T alpha,
           LocalArray<const T> a, LocalArray<const T> b, T beta, LocalArray<T> c,
           PgemmReport& report) const
  {
    T* const shared = reinterpret_cast<T*>(block.begin(world, shared_bytes()));
    require<CommunicationError>(
        shared != nullptr, "got a product that needs ", shared_bytes(),
        " bytes of shared memory, but the system refused them; free memory, or lower the limit of "
        "its workspace");
    const BlasThreads of_each{threads};
    bool first = true;
    for (const auto& slab : slabs_)
    {
      world.barrier();  // no rank still reads the panels of the last slab or product
      time_into(report.conversion, [&] {
        slab.a.copy(a.data, a.ld, shared + a_.offset, a_.ld, CopyElement{});
        slab.b.copy(b.data, b.ld, shared + b_.offset, b_.ld, CopyElement{});
      });
      world.barrier();
      if (moves_) move_to_core(rank_);
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
    std::size_t panel = 0;   // the distance between panels, in elements: whole columns
    std::size_t ld = 0;      // the leading dimension of the column-major array of a panel
  };

  /// Consecutive indices of K, and the elements that this rank copies for them.
  struct Slab
  {
    std::size_t depth = 0;
    CommonBlocks a;
    CommonBlocks b;
  };

  struct Depths
  {
    std::size_t begin;
    std::size_t size;
  };

  static constexpr std::size_t least_depth = 256;

  /// Uses C's groups, or the cut that is predicted to be the fastest if it is faster than these.
  void choose_way(IndexGroups rows, IndexGroups cols, int holders, int ranks, int cores)
  {
    double least = time_in_place(rows, cols, holders, cores);
    const auto consider = [&](int workers) {
      for (const WorkCut& cut : work_cuts(static_cast<std::size_t>(workers)))
      {
        if (cut.m > size_.m || cut.n > size_.n || cut.k > size_.k) continue;
        if (part_ != MatrixPart::all && cut.m * cut.n > 1) continue;
        const double time = time_of(cut, ranks, cores);
        if (time >= least) continue;
        least = time;
        cut_ = cut;
      }
    };
    if (ranks > 1) consider(ranks);
    if (ranks > cores) consider(cores);
    row_groups_ = cut_ ? equal_groups(size_.m, cut_->m) : std::move(rows);
    col_groups_ = cut_ ? equal_groups(size_.n, cut_->n) : std::move(cols);
  }

  /// Returns the predicted time if each of `holders` ranks multiplies into its own C.
  [[nodiscard]] double time_in_place(const IndexGroups& rows, const IndexGroups& cols, int holders,
                                     int cores) const
  {
    double longest = 0;
    double total = 0;
    for (const IndexSet& i : rows)
      for (const IndexSet& j : cols)
      {
        const ProductSize size{i.size(), j.size(), size_.k};
        if (size.m == 0 || size.n == 0) continue;
        const double time = product_time(size) * share(i, j);
        longest = std::max(longest, time);
        total += time;
      }
    total *= double(holders) / double(rows.size() * cols.size());  // replicas compute it, too
    return std::max(longest, total / std::min(holders, cores));
  }

  /// Returns the predicted time if each worker multiplies a part into shared memory, from which the
  /// ranks add it to C.
  [[nodiscard]] double time_of(const WorkCut& cut, int ranks, int cores) const
  {
    const ProductSize part{ceil_div(size_.m, cut.m), ceil_div(size_.n, cut.n),
                           ceil_div(size_.k, cut.k)};
    const double turns = std::max(1.0, double(cut.workers()) / cores);
    const double copies = (cut.k > 1 ? 4 : 3) * times_.copy;
    const double computed = part_ == MatrixPart::all ? 1 : 0.5;
    return turns * (computed * product_time(part) + copies * double(part.m * part.n)) +
           GemmRates{}.window * ranks;
  }

  /// Returns the approximate fraction of the elements in some rows and columns of C that is
  /// computed.
  [[nodiscard]] double share(const IndexSet& rows, const IndexSet& cols) const
  {
    if (part_ == MatrixPart::all) return 1;
    double lower = 0;
    IndexRun run;
    for (std::size_t at = 0; rows.next(at, run); at = run.end)
      lower +=
          double(run.end - run.begin) * double(cols.count_below((run.begin + run.end + 1) / 2));
    lower /= double(rows.size()) * double(cols.size());
    return part_ == MatrixPart::lower ? lower : 1 - lower;
  }

  /// Returns the predicted time of a product on one core.
  [[nodiscard]] double product_time(ProductSize s) const
  {
    constexpr double more_multiplications = ComplexScalar<T> ? 3 : 0;
    return times_(s) +
           more_multiplications * double(s.m) * double(s.n) * double(s.k) / times_.products;
  }

  /// @param groups_in_columns whether a column of the stored matrix has the grouped indices
  [[nodiscard]] Panels place_panels(bool groups_in_columns, const IndexGroups& groups)
  {
    const std::size_t in_column = groups_in_columns ? largest(groups) : depth_;
    const std::size_t columns = groups_in_columns ? depth_ : largest(groups);
    const std::size_t ld = padded_leading_dimension<T>(in_column);
    const std::size_t panel = ld * columns;
    const std::size_t offset = elements_;
    elements_ += panel * groups.size();
    return {offset, panel, ld};
  }

  [[nodiscard]] Slab make_slab(const ProductArguments& call, std::size_t k) const
  {
    const IndexSet depth = IndexSet::interval(k, std::min(depth_, size_.k - k));
    const auto blocks = [&](const SubMatrixPlace& x, bool groups_in_columns,
                            const IndexGroups& groups, std::size_t size,
                            const Panels& p) -> CommonBlocks {
      const auto& grid = x.layout.grid;
      if (rank_ >= grid.size()) return {};
      const auto [m, n] = groups_in_columns ? Shape{size, size_.k} : Shape{size_.k, size};
      const IndexSet rows = share_of(row_sets(x.layout), grid.row(rank_), grid.rows, x.i, m);
      const IndexSet cols = share_of(col_sets(x.layout), grid.col(rank_), grid.cols, x.j, n);
      if (groups_in_columns) return {runs_into({depth}, 0, cols), runs_into(groups, p.panel, rows)};
      return {runs_into(groups, p.panel / p.ld, cols), runs_into({depth}, 0, rows)};
    };
    return {depth.size(), blocks(call.a, op_a_ == Op::none, row_groups_, size_.m, a_),
            blocks(call.b, op_b_ != Op::none, col_groups_, size_.n, b_)};
  }

  /// Keeps the indices of the rows and columns of which this rank computes a part. Its array is
  /// that of the transpose, by rows.
  void find_indices(const IndexSet& rows, const IndexSet& cols)
  {
    if (part_ != MatrixPart::all) triangle_ = {transposed(part_), indices(cols), indices(rows)};
  }

  /// Computes C^T (columns of group j, rows of group i) = alpha op(B)^T op(A)^T + beta C^T, summed
  /// over some indices of the slab. A column-major array is a row-major one of the transpose.
  void multiply(std::size_t i, std::size_t j, Depths k, const T* shared, T alpha, T beta,
                MatrixView<T> c) const
  {
    const auto block = [&](Depths depths, std::size_t row, std::size_t col, T factor,
                           MatrixView<T> out) {
      const auto stored = [&](const Panels& p, std::size_t group, std::size_t first,
                              std::size_t size, bool groups_in_columns) -> MatrixView<const T> {
        const T* const data = shared + p.offset + group * p.panel;
        if (groups_in_columns) return {data + first + depths.begin * p.ld, depths.size, size, p.ld};
        return {data + depths.begin + first * p.ld, size, depths.size, p.ld};
      };
      HostEngine{}.gemm(op_b_, op_a_, alpha, stored(b_, j, col, out.rows(), op_b_ != Op::none),
                        stored(a_, i, row, out.cols(), op_a_ == Op::none), factor, out);
    };
    if (part_ == MatrixPart::all) return block(k, 0, 0, beta, c);
    // The rectangles inside a triangle read the same panels one after the other, so these should
    // fit into a cache.
    constexpr std::size_t most_depth = 512;
    std::size_t done = 0;
    do  // once if k.size is 0, where C = beta C
    {
      const Depths depths{k.begin + done, std::min(most_depth, k.size - done)};
      triangle_.multiply(done == 0 ? beta : T{1}, c,
                         [&](std::size_t col, std::size_t row, T factor, MatrixView<T> out) {
                           block(depths, row, col, factor, out);
                         });
      done += most_depth;
    } while (done < k.size);
  }

  /// Computes this rank's part of a cut in shared memory.
  void multiply_part(std::size_t depth, T* shared, bool first) const
  {
    const auto worker = static_cast<std::size_t>(rank_);
    if (worker >= cut_->workers()) return;
    const std::size_t i = worker % cut_->m;
    const std::size_t j = worker / cut_->m % cut_->n;
    const Range k = block_range(depth, pad(depth, cut_->k), cut_->k, worker / cut_->m / cut_->n);
    multiply(i, j, {k.offset, k.valid}, shared, T{1}, first ? T{} : T{1},
             {shared + c_.offset + worker * c_.panel, col_groups_[j].size(), row_groups_[i].size(),
              c_.ld});
  }

  /// Computes C = alpha (the sum of its parts) + beta C for the elements of this rank.
  void add_up(const T* parts, T alpha, T beta, LocalArray<T> c) const
  {
    const Combine<T> combine{alpha, false, beta};
    if (cut_->k == 1 && part_ == MatrixPart::all)
      return c_blocks_.copy(parts, c_.ld, c.data, c.ld, combine);
    c_blocks_.for_each_in_lines([&](std::size_t from, std::size_t to, const CommonRun& run) {
      // If only a triangle is computed, C is not cut, so `from` and `run.source` are its indices.
      const ColumnRange in = columns_in(transposed(part_), from, run.source, run.size);
      add_up(parts + from * c_.ld + in.begin,
             c.data + to * c.ld + run.target + in.begin - run.source, in.end - in.begin, combine);
    });
  }
  void add_up(const T* part, T* out, std::size_t n, const Combine<T>& combine) const
  {
    const std::size_t next_part = c_.panel * cut_->m * cut_->n;
    constexpr std::size_t most = 512;  // sums that fit into the first-level cache
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

  GemmTimes times_ = GemmTimes::of(sizeof(T));
  Op op_a_;
  Op op_b_;
  ProductSize size_;
  MatrixPart part_;
  int rank_;
  bool moves_;  // whether ranks move to different cores before they multiply
  std::optional<WorkCut> cut_;
  IndexGroups row_groups_;
  IndexGroups col_groups_;
  std::size_t depth_ = 0;  // the depth of a slab
  std::vector<Slab> slabs_;
  Panels a_;
  Panels b_;
  Panels c_;                    // the panels of a cut
  std::size_t elements_ = 0;    // elements in shared memory
  CommonBlocks c_blocks_;       // those of all m x n parts of a cut
  Rectangle own_;               // without a cut: the groups of this rank's part of C, and its shape
  TriangleOfProduct triangle_;  // the part that this rank computes, if it is a triangle
  std::size_t own_row_ = 0;
  std::size_t own_col_ = 0;
};

}  // namespace cubist::CUBIST_ABI::detail
