// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Distributed matrices of any kind for tests of conversions: block-cyclic ones, lists of
// rectangles, and DistMatrix. Arrays are longer than their elements. Each matrix tells, element by
// element, what each rank holds by definition.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cubist/foreign/foreign_matrix.hpp"
#include "cubist/matrix/dist_matrix.hpp"
#include "cubist/mesh/mesh.hpp"

#include "matrices.hpp"

namespace cubist::test
{

/// Random integers that are the same on every rank.
class Dice
{
 public:
  explicit Dice(std::uint64_t seed)
      : seed_{seed}
  {
  }
  /// The next integer in [0, n).
  std::size_t operator()(std::size_t n) { return hash(seed_, 0, rolls_++) % n; }
  int integer(int n) { return static_cast<int>((*this)(static_cast<std::size_t>(n))); }

 private:
  std::uint64_t seed_;
  std::uint64_t rolls_ = 0;
};

/// The row or column indices that one place of a grid holds, in order. The first block has `first`
/// indices, or `block` if `first` is 0.
[[nodiscard]] inline std::vector<std::size_t> cyclic_indices(std::size_t n, std::size_t first,
                                                             std::size_t block, int source,
                                                             int place, int parts)
{
  if (first == 0) first = block;
  std::vector<std::size_t> held;
  for (std::size_t i = 0; i < n; ++i)
  {
    const std::size_t of_block = i < first ? 0 : 1 + (i - first) / block;
    if (source < 0 ||
        (static_cast<std::size_t>(source) + of_block) % static_cast<std::size_t>(parts) ==
            static_cast<std::size_t>(place))
      held.push_back(i);
  }
  return held;
}

/// The place of an element in a rank's arrays.
struct Place
{
  std::size_t array = 0;
  std::size_t row = 0;
  std::size_t col = 0;
};

/// A distributed matrix of any kind, which knows where its elements are by definition.
template <class T, class B>
class AnyDistributed
{
 public:
  using World = typename B::Communicator;

  /// Makes a random matrix of this shape.
  AnyDistributed(World& world, Shape shape, Dice& dice)
      : rank_{world.rank()}
  {
    const std::size_t kind = dice(3);
    if (kind == 0)
      make_cyclic(world, shape, dice);
    else if (kind == 1)
      make_list(world, shape, dice);
    else
      make_dist(world, shape, dice);
  }
  AnyDistributed(const AnyDistributed&) = delete;

  [[nodiscard]] const ForeignMatrix<T>& matrix() const { return *matrix_; }
  [[nodiscard]] const std::string& name() const { return name_; }

  /// Where a rank holds element (i, j), if it does.
  [[nodiscard]] std::optional<Place> place(int rank, std::size_t i, std::size_t j) const
  {
    const auto r = static_cast<std::size_t>(rank);
    for (std::size_t k = 0; k < rows_[r].size(); ++k)
    {
      const auto row = std::lower_bound(rows_[r][k].begin(), rows_[r][k].end(), i);
      const auto col = std::lower_bound(cols_[r][k].begin(), cols_[r][k].end(), j);
      if (row != rows_[r][k].end() && *row == i && col != cols_[r][k].end() && *col == j)
        return Place{k, static_cast<std::size_t>(row - rows_[r][k].begin()),
                     static_cast<std::size_t>(col - cols_[r][k].begin())};
    }
    return std::nullopt;
  }
  /// An element that this rank holds.
  [[nodiscard]] T& at(const Place& p) const
  {
    const LocalArray<T>& a = matrix_->arrays()[p.array];
    const bool by_rows =
        matrix_->distribution().local_order(rank_, p.array) == StorageOrder::row_major;
    return a.data[by_rows ? p.row * a.ld + p.col : p.col * a.ld + p.row];
  }
  /// Calls f(array, index in it, element) for all memory of this rank, gaps included.
  template <class F>
  void for_each_in_memory(F f)
  {
    for (std::vector<T>& a : memory_)
      for (T& x : a) f(x);
    if (dist_ != nullptr)
      for (std::size_t k = 0; k < dist_size_; ++k) f(matrix_->arrays()[0].data[k]);
  }

 private:
  void make_cyclic(World& world, Shape shape, Dice& dice)
  {
    BlockCyclic a{.shape = shape};
    const int ranks = world.size();
    a.grid.rows = 1 + dice.integer(ranks);
    a.grid.cols = 1 + dice.integer(ranks / a.grid.rows);
    if (dice(2) == 0) a.grid.order = StorageOrder::column_major;
    if (dice(3) == 0) a.order = StorageOrder::row_major;
    a.block = {1 + dice(9), 1 + dice(9)};
    if (dice(3) == 0) a.first_block = {1 + dice(12), 1 + dice(12)};
    a.row_source = dice(5) == 0 ? -1 : dice.integer(a.grid.rows);
    a.col_source = dice(5) == 0 ? -1 : dice.integer(a.grid.cols);
    const Distribution d{a};
    for (int rank = 0; rank < ranks; ++rank)
    {
      rows_.emplace_back(), cols_.emplace_back();
      if (rank >= a.grid.size()) continue;
      rows_.back().push_back(cyclic_indices(shape.rows, a.first_block.rows, a.block.rows,
                                            a.row_source, a.grid.row(rank), a.grid.rows));
      cols_.back().push_back(cyclic_indices(shape.cols, a.first_block.cols, a.block.cols,
                                            a.col_source, a.grid.col(rank), a.grid.cols));
    }
    name_ = "cyclic " + std::to_string(a.grid.rows) + " x " + std::to_string(a.grid.cols);
    const std::vector<LocalArray<T>> arrays = make_arrays(d, dice);
    matrix_.emplace(world, d, arrays.at(0).data, arrays.at(0).ld);
  }

  /// Cuts the matrix into rectangles at random.
  void make_list(World& world, Shape shape, Dice& dice)
  {
    std::vector<RankRectangle> list{{0, 0, 0, shape}};
    const std::size_t cuts = dice(8);
    for (std::size_t k = 0; k < cuts; ++k)
    {
      RankRectangle& r = list[dice(list.size())];
      RankRectangle rest = r;
      if (dice(2) == 0)
      {
        r.shape.rows = dice(r.shape.rows + 1);
        rest.i += r.shape.rows;
        rest.shape.rows -= r.shape.rows;
      }
      else
      {
        r.shape.cols = dice(r.shape.cols + 1);
        rest.j += r.shape.cols;
        rest.shape.cols -= r.shape.cols;
      }
      list.push_back(rest);
    }
    rows_.resize(static_cast<std::size_t>(world.size()));
    cols_.resize(static_cast<std::size_t>(world.size()));
    for (RankRectangle& r : list)
    {
      r.rank = dice.integer(world.size());
      if (dice(2) == 0) r.order = StorageOrder::column_major;
      auto& rows = rows_[static_cast<std::size_t>(r.rank)].emplace_back();
      auto& cols = cols_[static_cast<std::size_t>(r.rank)].emplace_back();
      for (std::size_t i = 0; i < r.shape.rows; ++i) rows.push_back(r.i + i);
      for (std::size_t j = 0; j < r.shape.cols; ++j) cols.push_back(r.j + j);
    }
    name_ = std::to_string(list.size()) + " rectangles";
    const Distribution d{shape, list};
    matrix_.emplace(world, d, make_arrays(d, dice));
  }

  std::vector<LocalArray<T>> make_arrays(const Distribution& d, Dice& dice)
  {
    // Ranks have different numbers of arrays, but must roll the common dice equally often.
    Dice of_rank{100 * dice(1000) + static_cast<std::uint64_t>(rank_)};
    std::vector<LocalArray<T>> arrays;
    for (std::size_t k = 0; k < d.local_arrays(rank_); ++k)
    {
      const Shape s = d.local_shape(rank_, k);
      const bool by_rows = d.local_order(rank_, k) == StorageOrder::row_major;
      const std::size_t ld = std::max<std::size_t>(1, by_rows ? s.cols : s.rows) + of_rank(3);
      memory_.emplace_back(ld * (by_rows ? s.rows : s.cols));
      arrays.push_back({nullptr, ld});
    }
    for (std::size_t k = 0; k < arrays.size(); ++k)
      if (!memory_[k].empty()) arrays[k].data = memory_[k].data();
    return arrays;
  }

  using Cube = Axes<Depth, Row, Col>;

  void make_dist(World& world, Shape shape, Dice& dice)
  {
    typename Cube::Array extents;
    int free_ranks = world.size();
    for (int& e : extents)
    {
      e = 1 + dice.integer(free_ranks);
      free_ranks /= e;
    }
    const AxisMesh<Cube, B> mesh{world, extents, 1 + dice(6), IdleRanks::allowed};
    switch (dice(3))
    {
    case 0:
      return make_dist<Layout<Rows<Depth, Row>, Cols<Col>>>(mesh, shape);
    case 1:
      return make_dist<Layout<Rows<Row>, Cols<Col>>>(mesh, shape);
    default:
      return make_dist<Layout<Rows<>, Cols<Row, Depth>>>(mesh, shape);
    }
  }
  template <class L>
  void make_dist(const AxisMesh<Cube, B>& mesh, Shape shape)
  {
    const auto matrix = std::make_shared<DistMatrix<T, L, AxisMesh<Cube, B>>>(mesh, shape);
    dist_ = matrix;
    dist_size_ = matrix->padded().size();
    const auto view = matrix->view();
    for (int rank = 0; rank < mesh.parent().size(); ++rank)
    {
      rows_.emplace_back(), cols_.emplace_back();
      if (rank >= mesh.size()) continue;
      const Block b = view.block(rank);
      auto& rows = rows_.back().emplace_back();
      auto& cols = cols_.back().emplace_back();
      for (std::size_t i = 0; i < b.rows.valid; ++i) rows.push_back(b.rows.offset + i);
      for (std::size_t j = 0; j < b.cols.valid; ++j) cols.push_back(b.cols.offset + j);
    }
    name_ = L::to_string() + " on " + Cube::to_string(mesh.extents());
    matrix_.emplace(ForeignMatrix<T>::of(view));
  }

  int rank_;
  std::string name_;
  // Indexed by rank and array.
  std::vector<std::vector<std::vector<std::size_t>>> rows_;
  std::vector<std::vector<std::vector<std::size_t>>> cols_;
  std::vector<std::vector<T>> memory_;
  std::shared_ptr<void> dist_;
  std::size_t dist_size_ = 0;
  std::optional<ForeignMatrix<T>> matrix_;
};

}  // namespace cubist::test
