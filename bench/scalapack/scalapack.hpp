// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// ScaLAPACK's pdgemm and psgemm as a peer for matmul_run.hpp. They run on the same MPI processes,
// on a grid as square as their number allows, with blocks of 64, 128 and 256.
//
// Matrices are cut into square blocks, which are distributed block-cyclically along rows and
// columns of the grid. Each process stores its part column-major.

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <cubist/foreign/block_cyclic.hpp>
#include <cubist/foreign/distribution.hpp>
#include <cubist/foreign/index_set.hpp>

#include "products/matmul_run.hpp"

namespace bench
{

/// The two factors of `ranks` that are closest to each other: rows <= cols.
struct NearSquare
{
  int rows = 1;
  int cols = 1;
  explicit NearSquare(int ranks)
  {
    for (int r = 1; r * r <= ranks; ++r)
      if (ranks % r == 0) rows = r;
    cols = ranks / rows;
  }
};

/// A grid of processes. All MPI processes make one, and `ranks` of them take part.
class BlacsGrid
{
 public:
  explicit BlacsGrid(int ranks);
  BlacsGrid(const BlacsGrid&) = delete;
  BlacsGrid& operator=(const BlacsGrid&) = delete;
  ~BlacsGrid();

  [[nodiscard]] int context() const { return context_; }
  [[nodiscard]] std::size_t rows() const { return static_cast<std::size_t>(shape_.rows); }
  [[nodiscard]] std::size_t cols() const { return static_cast<std::size_t>(shape_.cols); }
  /// The rank of this process; -1 if it takes no part.
  [[nodiscard]] int rank() const { return rank_; }

 private:
  NearSquare shape_;
  int rank_ = -1;
  int handle_ = -1;
  int context_ = -1;
};

/// Returns the layout of a matrix in square blocks on the grid.
[[nodiscard]] inline cubist::BlockCyclic layout_on(const BlacsGrid& grid, cubist::Shape shape,
                                                   std::size_t block)
{
  return {.shape = shape,
          .block = {block, block},
          .grid = {static_cast<int>(grid.rows()), static_cast<int>(grid.cols())}};
}

/// Calls f(i, j) for the elements of a rank's array, column by column.
template <class F>
void for_each_local(const cubist::BlockCyclic& layout, int rank, F f)
{
  using namespace cubist::detail;
  const auto for_each = [](const IndexSet& set, auto g) {
    IndexRun run;
    for (std::size_t x = 0; set.next(x, run); x = run.end)
      for (std::size_t i = run.begin; i < run.end; ++i) g(i);
  };
  const IndexSet rows = set_of(row_sets(layout), layout.grid.row(rank));
  const IndexSet cols = set_of(col_sets(layout), layout.grid.col(rank));
  for_each(cols, [&](std::size_t j) { for_each(rows, [&](std::size_t i) { f(i, j); }); });
}

/// Makes this process's array.
template <class T, class F>
[[nodiscard]] std::vector<T> local_array(const BlacsGrid& grid, cubist::Shape shape,
                                         std::size_t block, F at)
{
  std::vector<T> local;
  if (grid.rank() < 0) return local;
  const auto layout = layout_on(grid, shape, block);
  local.reserve(cubist::Distribution{layout}.stored(grid.rank()));
  for_each_local(layout, grid.rank(),
                 [&](std::size_t i, std::size_t j) { local.push_back(at(i, j)); });
  return local;
}

/// Computes C = A B or C = A B^T by p?gemm.
/// @param routine  another library's p?gemm, with ScaLAPACK's arguments; null: ScaLAPACK's
template <class T>
void scalapack_multiply(const BlacsGrid& grid, cubist::ProductSize size, std::size_t block,
                        const std::vector<T>& a, const std::vector<T>& b, std::vector<T>& c,
                        bool transposed_b = false, void* routine = nullptr);

/// Computes a product with one triangle by ScaLAPACK, with the lower triangle of A on the left:
/// "symm" C = A B, "trmm" C = A C, "trsm" C = A^-1 C; or "syrk", the lower triangle of C = A A^T.
/// @param size  m and n of B and C; for syrk m and k
template <class T>
void scalapack_triangle(const BlacsGrid& grid, const std::string& routine, cubist::ProductSize size,
                        std::size_t block, const std::vector<T>& a, const std::vector<T>& b,
                        std::vector<T>& c);

/// Whether ScaLAPACK was found when this was built.
[[nodiscard]] bool has_scalapack();

template <class T>
class Scalapack
{
 public:
  explicit Scalapack(const MatmulTask& task)
      : size_{task.size}
  {
    if (!task.scalapack || !has_scalapack()) return;
    grid_ = std::make_unique<BlacsGrid>(task.on.ranks);
    for (const std::size_t block : {64U, 128U, 256U})
      variants_.push_back(
          {block, local_array<T>(*grid_, {size_.m, size_.k}, block, XAt<T>{}),
           local_array<T>(*grid_, {size_.k, size_.n}, block, WAt<T>{}),
           local_array<T>(*grid_, {size_.m, size_.n}, block, [](auto...) { return T{}; })});
  }

  [[nodiscard]] std::size_t count() const { return variants_.size(); }
  [[nodiscard]] int block(std::size_t v) const { return static_cast<int>(variants_[v].block); }

  void multiply(std::size_t v)
  {
    auto& [block, x, w, y] = variants_[v];
    scalapack_multiply(*grid_, size_, block, x, w, y);
  }

  /// Whether the blocks of all ranks equal those of rank 0's global Y.
  template <class World>
  bool equals(std::size_t v, World& world, const std::vector<T>& Y)
  {
    const auto& [block, x, w, y] = variants_[v];
    if (world.rank() != 0)
    {
      world.send(y, 0);
      return true;
    }
    bool same = equals(0, block, y, Y);
    for (int rank = 1; rank < world.size(); ++rank)
    {
      std::vector<T> theirs(cubist::Distribution{layout(block)}.stored(rank));
      world.receive(theirs, rank);
      same = equals(rank, block, theirs, Y) && same;
    }
    return same;
  }

 private:
  struct Variant
  {
    std::size_t block;
    std::vector<T> x;
    std::vector<T> w;
    std::vector<T> y;
  };

  [[nodiscard]] cubist::BlockCyclic layout(std::size_t block) const
  {
    return layout_on(*grid_, {size_.m, size_.n}, block);
  }

  [[nodiscard]] bool equals(int rank, std::size_t block, const std::vector<T>& local,
                            const std::vector<T>& Y) const
  {
    bool same = true;
    auto element = local.begin();
    for_each_local(layout(block), rank, [&](std::size_t i, std::size_t j) {
      same = same && *element++ == Y[i * size_.n + j];
    });
    return same;
  }

  cubist::ProductSize size_;
  std::unique_ptr<BlacsGrid> grid_;
  std::vector<Variant> variants_;
};

}  // namespace bench
