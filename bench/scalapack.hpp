// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// ScaLAPACK's pdgemm and psgemm as a peer of matmul_run.hpp, on a grid of the same MPI processes
// that is as square as their number allows, with blocks of 64, 128 and 256.
//
// Matrices are in square blocks, distributed block-cyclically along rows and columns of the grid
// and column-major in each process.

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "matmul_run.hpp"

namespace bench
{

/// One dimension of n indices, in blocks, distributed cyclically over the `parts` of the grid.
struct BlockCyclic
{
  std::size_t n;
  std::size_t block;
  std::size_t parts;

  [[nodiscard]] std::size_t count(std::size_t part) const
  {
    const std::size_t whole = n / block;
    const std::size_t rest = whole % parts;
    return whole / parts * block + (part < rest ? block : part == rest ? n % block : 0);
  }
  [[nodiscard]] std::size_t global(std::size_t part, std::size_t local) const
  {
    return (local / block * parts + part) * block + local % block;
  }
};

/// The factors r <= c of `ranks` that are closest to each other.
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

/// The processes in rows and columns. All of MPI's processes make it, `ranks` of them take part.
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
  [[nodiscard]] std::size_t row_of(int rank) const
  {
    return static_cast<std::size_t>(rank) / cols();
  }
  [[nodiscard]] std::size_t col_of(int rank) const
  {
    return static_cast<std::size_t>(rank) % cols();
  }
  /// This process's; -1 if it takes no part.
  [[nodiscard]] int rank() const { return rank_; }

 private:
  NearSquare shape_;
  int rank_ = -1;
  int handle_ = -1;
  int context_ = -1;
};

/// C = A B by p?gemm, or C = A B^T.
/// @param routine p?gemm of another library, which takes ScaLAPACK's arguments; null: ScaLAPACK's
template <class T>
void scalapack_multiply(const BlacsGrid& grid, cubist::ProductSize size, std::size_t block,
                        const std::vector<T>& a, const std::vector<T>& b, std::vector<T>& c,
                        bool transposed_b = false, void* routine = nullptr);

/// Whether ScaLAPACK was found when this was built.
[[nodiscard]] bool has_scalapack();

template <class T>
class Scalapack
{
 public:
  explicit Scalapack(const MatmulTask& task) : size_{task.size}
  {
    if (!task.scalapack || !has_scalapack()) return;
    grid_ = std::make_unique<BlacsGrid>(task.on.ranks);
    for (const std::size_t block : {64U, 128U, 256U})
      variants_.push_back({block, matrix(size_.m, size_.k, block, XAt<T>{}),
                           matrix(size_.k, size_.n, block, WAt<T>{}),
                           matrix(size_.m, size_.n, block, [](auto...) { return T{}; })});
  }

  [[nodiscard]] std::size_t count() const { return variants_.size(); }
  [[nodiscard]] int block(std::size_t v) const { return static_cast<int>(variants_[v].block); }

  void multiply(std::size_t v)
  {
    auto& [block, x, w, y] = variants_[v];
    scalapack_multiply(*grid_, size_, block, x, w, y);
  }

  /// Whether the blocks of all ranks are those of rank 0's global Y.
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
      std::vector<T> theirs(rows(block).count(grid_->row_of(rank)) *
                            cols(block).count(grid_->col_of(rank)));
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

  [[nodiscard]] BlockCyclic rows(std::size_t block) const
  {
    return {size_.m, block, grid_->rows()};
  }
  [[nodiscard]] BlockCyclic cols(std::size_t block) const
  {
    return {size_.n, block, grid_->cols()};
  }

  template <class F>
  [[nodiscard]] std::vector<T> matrix(std::size_t m, std::size_t n, std::size_t block, F at) const
  {
    std::vector<T> local;
    if (grid_->rank() < 0) return local;
    const BlockCyclic r{m, block, grid_->rows()};
    const BlockCyclic c{n, block, grid_->cols()};
    const std::size_t row = grid_->row_of(grid_->rank());
    const std::size_t col = grid_->col_of(grid_->rank());
    local.reserve(r.count(row) * c.count(col));
    for (std::size_t j = 0; j < c.count(col); ++j)
      for (std::size_t i = 0; i < r.count(row); ++i)
        local.push_back(at(r.global(row, i), c.global(col, j)));
    return local;
  }

  [[nodiscard]] bool equals(int rank, std::size_t block, const std::vector<T>& local,
                            const std::vector<T>& Y) const
  {
    const BlockCyclic r = rows(block);
    const BlockCyclic c = cols(block);
    const std::size_t row = grid_->row_of(rank);
    const std::size_t col = grid_->col_of(rank);
    auto element = local.begin();
    for (std::size_t j = 0; j < c.count(col); ++j)
      for (std::size_t i = 0; i < r.count(row); ++i)
        if (*element++ != Y[r.global(row, i) * size_.n + c.global(col, j)]) return false;
    return true;
  }

  cubist::ProductSize size_;
  std::unique_ptr<BlacsGrid> grid_;
  std::vector<Variant> variants_;
};

}  // namespace bench
