// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A distributed batch (B, M, N) of matrices of equal shape. Each group of ranks holds a contiguous
// range of the batch, and cuts each matrix as the layout says.
//
// Elements sent: scatter and gather send each block once, with its padding, unless rank 0 holds it.

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "cubist/core/block.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/host_device.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/matrix/dist_matrix.hpp"
#include "cubist/matrix/global.hpp"
#include "cubist/matrix/staging.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

/// Turns f(b, i, j) into a function of (i, j), for a fixed b.
template <class F>
struct BatchIndexed
{
  F f;
  std::size_t b;

  CUBIST_HOST_DEVICE auto operator()(std::size_t i, std::size_t j) const { return f(b, i, j); }
};

}  // namespace detail

/// @tparam M an AxisBatchMesh
template <Scalar T, class L, class M>
class DistBatch
{
 public:
  using Value = T;
  using Layout = L;
  using Mesh = M;
  /// One matrix of the batch.
  using Matrix = DistMatrix<T, L, typename M::Group>;

  /// Makes `batch` matrices of zeros. All ranks call it.
  DistBatch(const M& mesh, std::size_t batch, Shape shape)
      : mesh_{mesh},
        batch_{batch},
        shape_{shape}
  {
    matrices_.reserve(own_range().valid);
    for (std::size_t i = 0; i < own_range().valid; ++i) matrices_.emplace_back(mesh.group(), shape);
  }

  [[nodiscard]] const M& mesh() const { return mesh_; }
  /// The number of matrices in all groups.
  [[nodiscard]] std::size_t batch() const { return batch_; }
  /// The shape of each matrix.
  [[nodiscard]] Shape shape() const { return shape_; }

  /// The number of matrices in this rank's group.
  [[nodiscard]] std::size_t size() const { return matrices_.size(); }
  /// The index of this group's first matrix in the batch.
  [[nodiscard]] std::size_t offset() const { return own_range().offset; }
  [[nodiscard]] Matrix& operator[](std::size_t i) { return matrices_[i]; }
  [[nodiscard]] const Matrix& operator[](std::size_t i) const { return matrices_[i]; }
  [[nodiscard]] auto begin() { return matrices_.begin(); }
  [[nodiscard]] auto end() { return matrices_.end(); }

  /// Returns which matrices a group holds. The first batch % groups groups hold one matrix more
  /// than the others.
  [[nodiscard]] Range group_range(int group) const
  {
    const auto g = static_cast<std::size_t>(group);
    const std::size_t each = batch_ / static_cast<std::size_t>(mesh_.groups());
    const std::size_t more = batch_ % static_cast<std::size_t>(mesh_.groups());
    const std::size_t size = each + (g < more ? 1 : 0);
    return {g * each + std::min(g, more), size, size};
  }

  /// Sets element (b, i, j) to f(b, i, j).
  template <class F>
  void generate(F f)
  {
    for (std::size_t b = 0; b < size(); ++b)
      matrices_[b].generate(detail::BatchIndexed<F>{f, offset() + b});
  }

 private:
  [[nodiscard]] Range own_range() const { return group_range(mesh_.index()); }

  M mesh_;
  std::size_t batch_;
  Shape shape_;
  std::vector<Matrix> matrices_;
};

/// Sets a batch from rank 0's `global` (B, M, N); other ranks' `global` is not read. All ranks call
/// it.
/// @throws ShapeError on all ranks unless rank 0's `global` has the sizes of the batch
template <class E, Scalar T, class L, class M>
void scatter(const E& global, DistBatch<T, L, M>& out)
{
  auto& world = out.mesh().world();
  const Shape shape = out.shape();
  std::array<int, 1> fits{1};
  if (world.rank() == 0)
    fits[0] = global.dimension() == 3 && global.shape()[0] == out.batch() &&
              global.shape()[1] == shape.rows && global.shape()[2] == shape.cols;
  const auto& engine = out.mesh().group().engine();
  with_staging_buffer(engine, std::span<int>{fits},
                      [&](auto values) { world.broadcast(values, 0); });
  require<ShapeError>(fits[0] != 0,
                      "got a global tensor on rank 0 whose sizes differ from those of the batch, ",
                      out.batch(), " matrices of ", shape,
                      ", so their elements do not correspond; give it these sizes");
  if (world.rank() != 0)
  {
    for (auto& matrix : out) world.receive(matrix.padded().elements(), 0);
    return;
  }
  decltype(auto) tensor = detail::as_row_major<T, 3>(global);
  DistMatrix<T, L, typename M::Group> sample{out.mesh().group(), shape};
  const auto like = sample.view();
  for (int rank = 0; rank < world.size(); ++rank)
  {
    const Block b = like.block(rank % out.mesh().group_size());
    const Range range = out.group_range(rank / out.mesh().group_size());
    for (std::size_t i = 0; i < range.valid; ++i)
    {
      const MatrixView<const T> all{tensor.data() + (range.offset + i) * shape.size(), shape};
      const auto padded = rank == 0 ? out[i].padded() : like.padded;
      engine.fill(padded, T{});
      engine.upload(all.block(b.rows.offset, b.cols.offset, b.valid()),
                    padded.block(0, 0, b.valid()));
      if (rank != 0) world.send(MatrixView<const T>{padded}.elements(), rank);
    }
  }
}

/// Returns the batch (B, M, N) on rank 0, in the layout of the program's xtensor containers, and an
/// empty tensor on other ranks. All ranks call it.
template <Scalar T, class L, class M>
[[nodiscard]] xt::xtensor<T, 3> gather(const DistBatch<T, L, M>& x)
{
  using Global = xt::xtensor<T, 3>;
  auto& world = x.mesh().world();
  const auto& group = x.mesh().group();
  DistMatrix<T, L, typename M::Group> sample{group, x.shape()};
  const auto like = sample.view();
  const auto is_primary = [&](int rank) { return like.is_primary(rank % x.mesh().group_size()); };
  if (world.rank() != 0)
  {
    if (is_primary(world.rank()))
      for (std::size_t i = 0; i < x.size(); ++i) world.send(x[i].padded().elements(), 0);
    return Global::from_shape({0, 0, 0});
  }
  auto global = detail::RowMajor<T, 3>::from_shape({x.batch(), x.shape().rows, x.shape().cols});
  for (int rank = 0; rank < world.size(); ++rank)
  {
    if (!is_primary(rank)) continue;
    const Block b = like.block(rank % x.mesh().group_size());
    const Range range = x.group_range(rank / x.mesh().group_size());
    for (std::size_t i = 0; i < range.valid; ++i)
    {
      const MatrixView<T> all{global.data() + (range.offset + i) * x.shape().size(), x.shape()};
      if (rank != 0) world.receive(like.padded.elements(), rank);
      const auto block = rank == 0 ? x[i].padded() : MatrixView<const T>{like.padded};
      group.engine().download(block.block(0, 0, b.valid()),
                              all.block(b.rows.offset, b.cols.offset, b.valid()));
    }
  }
  return global;
}

}  // namespace cubist::CUBIST_ABI
