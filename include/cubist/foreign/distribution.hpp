// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A distribution is a value, equal on all ranks, that says which rank holds which elements of a
// matrix. It is the formula of a block-cyclic layout, a program's list of rectangles, or the blocks
// of a DistMatrix. A window turns it into the distribution of a sub-matrix.
//
//   Distribution{BlockCyclic{…}}                      a formula for each row and column of the grid
//   Distribution{shape, rectangles}                   every rank passes the whole list
//   Distribution::gather(world, shape, mine)          every rank passes its own rectangles
//   Distribution::of<Layout, Axes>(shape, extents)    the blocks of a DistMatrix, without a mesh
//
// It has no elements; foreign_matrix.hpp adds the addresses of this rank's elements.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "cubist/comm/communicator.hpp"
#include "cubist/core/block.hpp"
#include "cubist/core/error.hpp"
#include "cubist/foreign/block_cyclic.hpp"
#include "cubist/foreign/index_set.hpp"
#include "cubist/foreign/patches.hpp"
#include "cubist/matrix/dist_matrix.hpp"

namespace cubist::CUBIST_ABI
{

/// A rectangle of a global matrix that a rank holds.
struct RankRectangle
{
  int rank = 0;                                  ///< the rank that holds it
  std::size_t i = 0;                             ///< its first row
  std::size_t j = 0;                             ///< its first column
  Shape shape = {};                              ///< its numbers of rows and columns
  StorageOrder order = StorageOrder::row_major;  ///< the order of its elements in memory

  friend constexpr bool operator==(const RankRectangle&, const RankRectangle&) = default;
};

namespace detail
{

/// @param name the name of the matrix, for messages
/// @throws ArgumentError for integers that no layout can have
inline const BlockCyclic& require_valid(const BlockCyclic& a, const char* name)
{
  require<ArgumentError>(a.block.rows > 0 && a.block.cols > 0, "got blocks of ", a.block.rows,
                         " x ", a.block.cols, " elements for ", name,
                         ", which hold nothing; use positive numbers of rows and columns");
  require<ArgumentError>(a.grid.rows > 0 && a.grid.cols > 0, "got a grid of ", a.grid.rows, " x ",
                         a.grid.cols, " processes for ", name,
                         ", so no process would hold it; use positive numbers");
  require<ArgumentError>(
      a.row_source >= -1 && a.row_source < a.grid.rows && a.col_source >= -1 &&
          a.col_source < a.grid.cols,
      "got ", name, " with its first block on process (", a.row_source, ", ", a.col_source,
      ") of a grid of ", a.grid.rows, " x ", a.grid.cols,
      ", which has no such process; count from 0, or use -1 for a matrix that is replicated");
  require_countable(a.shape, 1);
  return a;
}

/// Returns the rectangles with elements, in the order of a sweep over the rows.
[[nodiscard]] inline std::vector<RankRectangle>
in_order_of_rows(const std::vector<RankRectangle>& list)
{
  std::vector<RankRectangle> sorted;
  for (const RankRectangle& r : list)
    if (r.shape.size() > 0) sorted.push_back(r);
  std::ranges::sort(sorted, {}, [](const RankRectangle& r) { return std::pair{r.i, r.j}; });
  return sorted;
}

/// @throws ShapeError for two rectangles that overlap
inline void require_disjoint(const std::vector<RankRectangle>& list)
{
  const auto end_row = [](const RankRectangle& r) { return r.i + r.shape.rows; };
  const std::vector<RankRectangle> by_begin = in_order_of_rows(list);
  std::vector<const RankRectangle*> by_end;
  for (const RankRectangle& r : by_begin) by_end.push_back(&r);
  std::ranges::sort(by_end, {}, [&](const RankRectangle* r) { return end_row(*r); });
  // The rectangles that the current row crosses, by their first columns.
  std::map<std::size_t, const RankRectangle*> active;
  auto ended = by_end.begin();
  for (const RankRectangle& r : by_begin)
  {
    for (; ended != by_end.end() && end_row(**ended) <= r.i; ++ended) active.erase((*ended)->j);
    const auto next = active.lower_bound(r.j);
    const RankRectangle* other = nullptr;
    if (next != active.end() && next->first < r.j + r.shape.cols) other = next->second;
    if (next != active.begin())
      if (const auto* before = std::prev(next)->second; before->j + before->shape.cols > r.j)
        other = before;
    if (other != nullptr)
      require<ShapeError>(false, "got a rectangle of ", r.shape, " at (", r.i, ", ", r.j,
                          ") of rank ", r.rank, ", which overlaps the rectangle of ", other->shape,
                          " at (", other->i, ", ", other->j, ") of rank ", other->rank,
                          ", so an element would have two values; give each element to one "
                          "rectangle");
    active.emplace(r.j, &r);
  }
}

/// @throws ShapeError unless each element is in exactly one rectangle, ArgumentError for a negative
/// rank
inline void require_cover(Shape shape, const std::vector<RankRectangle>& list)
{
  std::size_t covered = 0;
  for (const RankRectangle& r : list)
  {
    require<ArgumentError>(r.rank >= 0, "got a rectangle of rank ", r.rank,
                           ", but there is no such rank; count ranks from 0");
    require<ShapeError>(r.i <= shape.rows && r.shape.rows <= shape.rows - r.i &&
                            r.j <= shape.cols && r.shape.cols <= shape.cols - r.j,
                        "got a rectangle of ", r.shape, " at (", r.i, ", ", r.j, ") of rank ",
                        r.rank, ", which is not inside a matrix of ", shape,
                        "; give its first row and column, counted from 0, and its sizes");
    covered += r.shape.size();
  }
  require_disjoint(list);
  require<ShapeError>(covered == shape.size(), "got rectangles that hold ", covered,
                      " elements of a matrix of ", shape, ", so ", shape.size() - covered,
                      " elements have no rank; give each element to one rectangle");
}

}  // namespace detail

/// Says which rank holds which elements of a matrix, or of a sub-matrix. Cheap to copy.
class Distribution
{
  using List = std::vector<RankRectangle>;

 public:
  /// Makes the distribution of a matrix without elements.
  Distribution()
      : list_{std::make_shared<const List>()}
  {
  }

  /// Makes the distribution of a block-cyclic matrix.
  /// @param name the name of the matrix, for messages
  /// @throws ArgumentError for empty blocks, a grid without processes, or a source outside the grid
  Distribution(const BlockCyclic& layout, const char* name = "a block-cyclic matrix")
      : Distribution{detail::require_valid(layout, name).shape, layout.grid, layout.order,
                     detail::row_sets(layout), detail::col_sets(layout)}
  {
  }

  /// Makes the distribution of a sub-matrix of this shape in a block-cyclic matrix.
  /// @throws ArgumentError as for the whole matrix, and ShapeError unless the sub-matrix lies
  /// inside it
  Distribution(const SubMatrixPlace& place, Shape shape, const char* name = "a block-cyclic matrix")
      : Distribution{Distribution{place.layout, name}.submatrix(place.i, place.j, shape, name)}
  {
  }

  /// Makes a distribution in which each row of the grid holds a set of rows, and each column of the
  /// grid a set of columns. If there is only one set, all hold it.
  /// @pre the sets of a dimension contain each of its indices once
  Distribution(Shape shape, const ProcessGrid& grid, StorageOrder order,
               std::vector<detail::IndexSet> rows, std::vector<detail::IndexSet> cols)
      : cyclic_{std::make_shared<const Cyclic>(
            Cyclic{grid, order, std::move(rows), std::move(cols), {}})},
        window_{shape}
  {
  }

  /// Makes the distribution of a matrix of rectangles. The list is the same on every rank, and may
  /// have empty rectangles.
  /// @throws ShapeError for rectangles that overlap, leave elements without a rank, or lie outside
  /// the matrix; ArgumentError for a negative rank
  Distribution(Shape shape, std::vector<RankRectangle> rectangles)
      : window_{shape}
  {
    detail::require_cover(shape, rectangles);
    set(std::move(rectangles));
  }

  /// Makes the distribution of a matrix of rectangles if each rank passes only its own, in any
  /// order. Their `rank` is ignored. All ranks of `world` call it, and send five integers per
  /// rectangle.
  /// @throws what the constructor throws, on all ranks
  template <Communicator C>
  [[nodiscard]] static Distribution gather(C& world, Shape shape,
                                           std::span<const RankRectangle> mine)
  {
    constexpr std::size_t numbers = 5;
    const auto ranks = static_cast<std::size_t>(world.size());
    std::vector<std::uint64_t> counts(ranks);
    world.all_gather(std::vector<std::uint64_t>{mine.size()}, counts);
    // The parts of a collective have equal lengths.
    const std::size_t most = *std::max_element(counts.begin(), counts.end());
    std::vector<std::uint64_t> sent;
    for (const RankRectangle& r : mine)
      for (const std::size_t x :
           {r.i, r.j, r.shape.rows, r.shape.cols, static_cast<std::size_t>(r.order)})
        sent.push_back(x);
    sent.resize(most * numbers);
    std::vector<std::uint64_t> all(ranks * most * numbers);
    world.all_gather(sent, all);
    std::vector<RankRectangle> list;
    for (std::size_t rank = 0; rank < ranks; ++rank)
      for (std::size_t k = 0; k < counts[rank]; ++k)
      {
        const std::uint64_t* r = all.data() + (rank * most + k) * numbers;
        list.push_back(
            {static_cast<int>(rank), r[0], r[1], {r[2], r[3]}, static_cast<StorageOrder>(r[4])});
      }
    return {shape, std::move(list)};
  }

  /// Returns the distribution of a DistMatrix of layout `L` on a mesh of these extents, without
  /// padding. Replicas are recognised as such.
  /// @tparam A Axes<…> of the mesh
  template <class L, class A>
  [[nodiscard]] static Distribution of(Shape shape, const typename A::Array& extents, Quanta quanta)
  {
    return of_blocks(shape, A::ranks(extents), [&](int rank) {
      return L::template block<A>(shape, extents, A::coordinates(rank, extents), quanta);
    });
  }
  /// Returns the distribution of a matrix, without padding.
  template <class T, class M>
  [[nodiscard]] static Distribution of(const DistView<T, M>& matrix)
  {
    return of_blocks(matrix.shape, matrix.mesh.size(),
                     [&](int rank) { return matrix.block(rank); });
  }

  /// The shape of the matrix, or of the sub-matrix.
  [[nodiscard]] Shape shape() const { return window_; }
  /// The number of ranks; later ranks hold no element.
  [[nodiscard]] int ranks() const
  {
    if (cyclic_) return cyclic_->ranks();
    return list_->empty() ? 0 : list_->back().rank + 1;
  }
  /// Returns the number of elements of the whole matrix that a rank stores, including those outside
  /// the sub-matrix.
  [[nodiscard]] std::size_t stored(int rank) const
  {
    std::size_t n = 0;
    for (std::size_t k = 0; k < local_arrays(rank); ++k) n += local_shape(rank, k).size();
    return n;
  }
  /// Returns the number of local arrays of a rank: 1, or the number of its rectangles.
  [[nodiscard]] std::size_t local_arrays(int rank) const
  {
    if (cyclic_) return 1;
    const auto [begin, end] = range(rank);
    return static_cast<std::size_t>(end - begin);
  }
  /// Returns the shape of a rank's local array or, for a matrix of rectangles, of its rectangle
  /// `index`.
  /// @pre index < local_arrays(rank)
  [[nodiscard]] Shape local_shape(int rank, std::size_t index = 0) const
  {
    const auto [rows, cols] = sets(rank, index);
    return {rows.stored(), cols.stored()};
  }
  /// Returns the shape of the part of the sub-matrix that a local array holds.
  /// @pre index < local_arrays(rank)
  [[nodiscard]] Shape held_shape(int rank, std::size_t index = 0) const
  {
    const auto [rows, cols] = sets(rank, index);
    return {rows.window(i_, window_.rows).size(), cols.window(j_, window_.cols).size()};
  }
  /// Returns the order of elements in a local array.
  /// @pre index < local_arrays(rank)
  [[nodiscard]] StorageOrder local_order(int rank, std::size_t index = 0) const
  {
    return cyclic_ ? cyclic_->order : rectangle(rank, index).order;
  }
  /// Whether every rank has one local array.
  [[nodiscard]] bool is_block_cyclic() const { return cyclic_ != nullptr; }

  /// Returns the distribution of rows [i, i + rows) and columns [j, j + cols).
  /// @param name the name of the matrix, for messages
  /// @throws ShapeError unless they lie inside
  [[nodiscard]] Distribution submatrix(std::size_t i, std::size_t j, Shape shape,
                                       const char* name = "a matrix") const
  {
    require<ShapeError>(i <= window_.rows && shape.rows <= window_.rows - i && j <= window_.cols &&
                            shape.cols <= window_.cols - j,
                        "got a sub-matrix of ", shape, " at (", i, ", ", j, ") of ", name, " of ",
                        window_,
                        ", which is not inside it; use smaller sizes, or a first row and column, "
                        "counted from 0, that leave room");
    Distribution part{*this};
    part.i_ += i;
    part.j_ += j;
    part.window_ = shape;
    return part;
  }

  /// Returns a block-cyclic distribution on other ranks: rank r holds what rank `processes[r]` of
  /// this distribution holds, or nothing if that is -1.
  /// @throws ArgumentError unless each process of the grid is given to exactly one rank
  /// @pre is_block_cyclic()
  [[nodiscard]] Distribution on_ranks(std::vector<int> processes) const
  {
    const int size = cyclic_->grid.size();
    std::vector<int> found(static_cast<std::size_t>(size));
    for (const int p : processes)
      if (p >= 0 && p < size) ++found[static_cast<std::size_t>(p)];
    for (int p = 0; p < size; ++p)
      require<ArgumentError>(found[static_cast<std::size_t>(p)] == 1, "got ",
                             found[static_cast<std::size_t>(p)], " ranks for process ", p,
                             " of a grid, so elements would have no place, or two; give each "
                             "process to exactly one rank");
    Distribution d{*this};
    Cyclic cyclic{*cyclic_};
    cyclic.processes = std::move(processes);
    d.cyclic_ = std::make_shared<const Cyclic>(std::move(cyclic));
    return d;
  }

  /// Whether ranks hold the same elements, according to the same formula or list.
  friend bool operator==(const Distribution& a, const Distribution& b)
  {
    const auto are_equal = [](const auto& x, const auto& y) {
      return x == y || (x && y && *x == *y);
    };
    return a.i_ == b.i_ && a.j_ == b.j_ && a.window_ == b.window_ && are_equal(a.list_, b.list_) &&
           are_equal(a.cyclic_, b.cyclic_);
  }

  /// Returns the patches of all ranks, for the plan of a conversion.
  [[nodiscard]] detail::Patches patches() const
  {
    detail::Patches p;
    if (cyclic_)
      add_cyclic(p);
    else
      add_list(p);
    return p;
  }

 private:
  template <class BlockOf>
  [[nodiscard]] static Distribution of_blocks(Shape shape, int ranks, BlockOf block_of)
  {
    List list;
    for (int rank = 0; rank < ranks; ++rank)
    {
      const Block b = block_of(rank);
      list.push_back({rank, b.rows.offset, b.cols.offset, b.valid()});
    }
    Distribution d;
    d.window_ = shape;
    d.set(std::move(list));
    return d;
  }

  void set(List list)
  {
    std::ranges::stable_sort(list, {}, &RankRectangle::rank);
    list_ = std::make_shared<const List>(std::move(list));
  }

  [[nodiscard]] std::pair<List::const_iterator, List::const_iterator> range(int rank) const
  {
    return {std::ranges::lower_bound(*list_, rank, {}, &RankRectangle::rank),
            std::ranges::upper_bound(*list_, rank, {}, &RankRectangle::rank)};
  }
  [[nodiscard]] const RankRectangle& rectangle(int rank, std::size_t index) const
  {
    return range(rank).first[static_cast<std::ptrdiff_t>(index)];
  }

  /// Returns the rows and the columns of the whole matrix that are in a local array.
  [[nodiscard]] std::pair<detail::IndexSet, detail::IndexSet> sets(int rank,
                                                                   std::size_t index) const
  {
    if (!cyclic_)
    {
      const RankRectangle& r = rectangle(rank, index);
      return {detail::IndexSet::interval(r.i, r.shape.rows),
              detail::IndexSet::interval(r.j, r.shape.cols)};
    }
    const int process = cyclic_->process(rank);
    if (process < 0) return {};
    return {detail::set_of(cyclic_->rows, cyclic_->grid.row(process)),
            detail::set_of(cyclic_->cols, cyclic_->grid.col(process))};
  }

  void add_cyclic(detail::Patches& patches) const
  {
    const ProcessGrid& grid = cyclic_->grid;
    patches.row_sets = detail::windows(cyclic_->rows, i_, window_.rows);
    patches.col_sets = detail::windows(cyclic_->cols, j_, window_.cols);
    patches.groups.resize(patches.row_sets.size() * patches.col_sets.size());
    for (int rank = 0; rank < cyclic_->ranks(); ++rank)
    {
      patches.first.push_back(patches.all.size());
      const int process = cyclic_->process(rank);
      if (process < 0) continue;
      const std::size_t p = patches.row_sets.size() == 1 ? 0 : std::size_t(grid.row(process));
      const std::size_t q = patches.col_sets.size() == 1 ? 0 : std::size_t(grid.col(process));
      const std::size_t group = p * patches.col_sets.size() + q;
      patches.groups[group].push_back(patches.all.size());
      patches.all.push_back({rank, p, q, 0, group, cyclic_->order == StorageOrder::row_major});
    }
    patches.first.push_back(patches.all.size());
  }

  /// Adds rectangles. Equal rectangles become replicas, and equal intervals become one set.
  void add_list(detail::Patches& patches) const
  {
    using Interval = std::pair<std::size_t, std::size_t>;
    std::map<Interval, std::size_t> rows;
    std::map<Interval, std::size_t> cols;
    std::map<Interval, std::size_t> groups;  // indexed by the sets of rows and columns
    std::size_t array = 0;
    for (const RankRectangle& r : *list_)
    {
      while (patches.first.size() <= static_cast<std::size_t>(r.rank))
      {
        patches.first.push_back(patches.all.size());
        array = 0;
      }
      const std::size_t index = array++;
      if (r.shape.size() == 0) continue;
      const auto p = rows.emplace(Interval{r.i, r.shape.rows}, rows.size()).first->second;
      const auto q = cols.emplace(Interval{r.j, r.shape.cols}, cols.size()).first->second;
      if (p == patches.row_sets.size())
        patches.row_sets.push_back(
            detail::IndexSet::interval(r.i, r.shape.rows).window(i_, window_.rows));
      if (q == patches.col_sets.size())
        patches.col_sets.push_back(
            detail::IndexSet::interval(r.j, r.shape.cols).window(j_, window_.cols));
      const auto group = groups.emplace(Interval{p, q}, groups.size()).first->second;
      if (group == patches.groups.size()) patches.groups.emplace_back();
      patches.groups[group].push_back(patches.all.size());
      patches.all.push_back({r.rank, p, q, index, group, r.order == StorageOrder::row_major});
    }
    patches.first.push_back(patches.all.size());
  }

  struct Cyclic
  {
    ProcessGrid grid;
    StorageOrder order;
    std::vector<detail::IndexSet> rows;
    std::vector<detail::IndexSet> cols;
    std::vector<int> processes;  // the process of each rank, or -1; empty if rank p is process p

    [[nodiscard]] int ranks() const
    {
      return processes.empty() ? grid.size() : static_cast<int>(processes.size());
    }
    [[nodiscard]] int process(int rank) const
    {
      if (rank >= ranks()) return -1;
      return processes.empty() ? rank : processes[static_cast<std::size_t>(rank)];
    }
    friend bool operator==(const Cyclic&, const Cyclic&) = default;
  };

  std::shared_ptr<const Cyclic> cyclic_;  // null unless the matrix is block-cyclic
  std::shared_ptr<const List> list_;      // null if it is; ordered by rank, then in the given order
  std::size_t i_ = 0;
  std::size_t j_ = 0;
  Shape window_;
};

}  // namespace cubist::CUBIST_ABI
