// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Describes the matrices of a product by values: the axes of the mesh that cut each of them, and a
// rank's block. Layouts are types; values let loops compute costs, where types would need
// templates.
//
//   X (M, K) S::Input    W (K, N) S::Weight    Y (M, N) S::Output

#include <array>
#include <cstddef>
#include <numeric>

#include "cubist/core/block.hpp"
#include "cubist/gradients/gradient_buckets.hpp"
#include "cubist/matrix/layout.hpp"
#include "cubist/plan/work.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// An axis of a mesh.
struct AxisOfMesh
{
  std::size_t index = 0;
  int extent = 1;
  int stride = 1;
};

/// The axes that cut a dimension, the innermost last.
struct AxisTuple : Few<AxisOfMesh, 4>
{
  std::size_t batches = 1;  // ranks along Data

  [[nodiscard]] constexpr AxisOfMesh innermost() const
  {
    return size() == 0 ? AxisOfMesh{} : (*this)[size() - 1];
  }
  [[nodiscard]] constexpr std::size_t parts() const
  {
    std::size_t n = 1;
    for (const auto& axis : *this) n *= static_cast<std::size_t>(axis.extent);
    return n;
  }
};

/// A matrix of a product.
struct CutMatrix
{
  LayerMatrix which = LayerMatrix::x;
  AxisTuple rows;
  AxisTuple cols;
  Shape block;
};

/// Returns the extents and strides of some axes of a mesh, such as those of Rows<Axis...>.
template <class A, template <class...> class List, class... Axis>
[[nodiscard]] constexpr AxisTuple tuple_of(List<Axis...>, const typename A::Array& extents)
{
  static_assert(sizeof...(Axis) <= 4);
  AxisTuple t;
  if constexpr (is_one_of<Data, Axis...>)
    t.batches = static_cast<std::size_t>(extents[A::template index<Data>()]);
  for (const std::size_t i : std::array<std::size_t, sizeof...(Axis)>{A::template index<Axis>()...})
  {
    int stride = 1;
    for (std::size_t j = i + 1; j < A::count; ++j) stride *= extents[j];
    t.add({i, extents[i], stride});
  }
  return t;
}

/// Returns a matrix of this shape with layout `L`. A dimension that is cut is padded to its
/// quantum.
template <class A, class L>
[[nodiscard]] constexpr CutMatrix cut_matrix(LayerMatrix which, Shape shape,
                                             const typename A::Array& extents, Quanta quanta)
{
  const auto rows = tuple_of<A>(typename L::RowAxes{}, extents);
  const auto cols = tuple_of<A>(typename L::ColAxes{}, extents);
  const auto piece = [](std::size_t n, const AxisTuple& by, std::size_t quantum) {
    if (by.size() == 0) return n;
    return pad(n, by.batches * std::lcm(quantum, by.parts() / by.batches)) / by.parts();
  };
  return {which,
          rows,
          cols,
          {piece(shape.rows, rows, quanta.rows), piece(shape.cols, cols, quanta.cols)}};
}

/// Returns the quanta of a product, with the mesh's quantum in place of 0.
[[nodiscard]] constexpr ProductQuanta or_quantum(ProductQuanta quanta, std::size_t quantum)
{
  const auto or_mesh = [quantum](std::size_t q) { return q == 0 ? quantum : q; };
  return {or_mesh(quanta.m), or_mesh(quanta.n), or_mesh(quanta.k)};
}

/// The three matrices of a product.
struct CutProduct
{
  CutMatrix x;
  CutMatrix w;
  CutMatrix y;
  /// The axes along which the gradient of W is summed, because each replica of W multiplies
  /// different rows.
  AxisTuple pending;
};

template <class S>
[[nodiscard]] constexpr CutProduct cut_product(const typename S::Axes::Array& extents,
                                               ProductSize size, ProductQuanta quanta = {})
{
  using A = typename S::Axes;
  using Pending = typename PendingAxes<typename S::Weight, typename S::Output::RowAxes>::type;
  const auto [m, n, k] = or_quantum(quanta, S::quantum(extents));
  return {cut_matrix<A, typename S::Input>(LayerMatrix::x, {size.m, size.k}, extents, {m, k}),
          cut_matrix<A, typename S::Weight>(LayerMatrix::w, {size.k, size.n}, extents, {k, n}),
          cut_matrix<A, typename S::Output>(LayerMatrix::y, {size.m, size.n}, extents, {m, n}),
          tuple_of<A>(Pending{}, extents)};
}

/// The number of elements in a replica's part of a block: some rows, or columns of a bias.
[[nodiscard]] constexpr std::size_t replica_part(Shape block, std::size_t replicas)
{
  return block.rows == 1 ? ceil_div(block.cols, replicas)
                         : ceil_div(block.rows, replicas) * block.cols;
}

/// The number of elements that a gradient takes up in a bucket (gradients/gradient_buckets.hpp).
[[nodiscard]] constexpr std::size_t bucket_elements(Shape block, std::size_t replicas, bool sharded,
                                                    std::size_t scalar_bytes)
{
  const std::size_t part = replica_part(block, replicas);
  const std::size_t packed = sharded ? part * replicas : block.size();
  if (replicas == 1 || packed * scalar_bytes > BucketOptions{}.bytes) return 0;
  return sharded ? 2 * packed + part : packed;
}

}  // namespace cubist::CUBIST_ABI::detail
