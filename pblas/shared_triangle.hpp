// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Multiplies or solves with a triangle of a block-cyclic matrix A, if ranks share memory:
//
//   A (N, N), B and C (N, R) or (R, N): sub-matrices of block-cyclic matrices, column-major
//
//   1. each rank copies its elements of the triangle, and of B, to memory that all ranks map;
//   2. each rank calls BLAS once, for an equal part of the columns of B, or of its rows if A is on
//      the right. These are independent, and all ranks read the same triangle;
//   3. each rank copies its elements of the result back.
//
// For trmm and trsm, B is not copied if ranks hold whole columns of it (rows, if A is on the
// right), as in the steps of a factorisation. Each then calls BLAS for its columns in place.
//
// Memory, on all ranks together: A, B, and for symm C, once each. Elements sent: none.

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <vector>

#include <cubist/comm/mpi/communicator.hpp>
#include <cubist/core/block.hpp>
#include <cubist/core/error.hpp>
#include <cubist/core/matrix_view.hpp>
#include <cubist/core/scalar.hpp>
#include <cubist/engine/engine.hpp>
#include <cubist/engine/host/blas_threads.hpp>
#include <cubist/engine/host/engine.hpp>
#include <cubist/foreign/block_cyclic.hpp>
#include <cubist/foreign/copy_blocks.hpp>
#include <cubist/foreign/index_set.hpp>
#include <cubist/foreign/matrix_part.hpp>
#include <cubist/foreign/patches.hpp>
#include <cubist/foreign/pgemm.hpp>
#include <cubist/foreign/triangular.hpp>
#include <cubist/memory/leading_dimension.hpp>

#include "local_part.hpp"
#include "move_to_core.hpp"
#include "product_cache.hpp"
#include "session.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// A matrix in shared memory, stored by columns.
template <class T>
struct SharedMatrix
{
  T* data = nullptr;
  Shape shape;
  std::size_t ld = 0;

  [[nodiscard]] static std::size_t elements(Shape shape)
  {
    return padded_size<T>({shape.cols, shape.rows});
  }
  SharedMatrix(T*& memory, Shape s)
      : data{memory},
        shape{s},
        ld{padded_leading_dimension<T>(s.rows)}
  {
    memory += elements(s);
  }

  /// Returns the transpose, which is stored by rows.
  [[nodiscard]] MatrixView<T> transposed() const { return {data, shape.cols, shape.rows, ld}; }
  /// Returns this rank's columns, or rows, as a view of the transpose.
  [[nodiscard]] MatrixView<T> share(bool by_columns, int rank, int ranks) const
  {
    const std::size_t size = by_columns ? shape.cols : shape.rows;
    const std::size_t line = by_columns ? 1 : 64 / sizeof(T);  // so that ranks share no cache line
    const auto parts = static_cast<std::size_t>(ranks);
    const Range r =
        block_range(size, pad(size, parts * line), parts, static_cast<std::size_t>(rank));
    return by_columns ? transposed().block(r.offset, 0, {r.valid, shape.rows})
                      : transposed().block(0, r.offset, {shape.cols, r.valid});
  }

  /// Copies this rank's elements of `part` into it. If there are replicas, one rank copies each
  /// element.
  void read(const PlacedMatrix<const T>& from, MatrixPart part, int rank) const
  {
    const auto& layout = from.whole.place.layout;
    const auto& grid = layout.grid;
    if (rank >= grid.size()) return;
    const IndexSet rows =
        share_of(row_sets(layout), grid.row(rank), grid.rows, from.whole.place.i, shape.rows);
    const IndexSet cols =
        share_of(col_sets(layout), grid.col(rank), grid.cols, from.whole.place.j, shape.cols);
    CommonBlocks{columns_of(rows, cols), columns_of(all_rows(), all_cols()), part}.copy(
        from.whole.data, from.whole.ld, data, ld, CopyElement{});
  }
  /// Computes to = this + beta to for this rank's elements.
  void add_to(const PlacedMatrix<T>& to, T beta, int rank) const
  {
    if (rank >= to.whole.place.layout.grid.size()) return;
    const auto [rows, cols] = local_sets(to.whole.place, shape, rank);
    const CommonBlocks blocks{columns_of(all_rows(), all_cols()), columns_of(rows, cols)};
    const T* const from = data;
    if (beta == T{})
      blocks.copy(from, ld, to.whole.data, to.whole.ld, CopyElement{});
    else
      blocks.copy(from, ld, to.whole.data, to.whole.ld, Combine<T>{T{1}, false, beta});
  }

 private:
  [[nodiscard]] IndexSet all_rows() const { return IndexSet::interval(0, shape.rows); }
  [[nodiscard]] IndexSet all_cols() const { return IndexSet::interval(0, shape.cols); }
};

/// Returns the number of processes that hold columns of B (rows, if A is on the right), or 0 if
/// some columns are not whole.
[[nodiscard]] inline std::size_t holders_of_lines(Side side, const SubMatrixPlace& b, Shape shape)
{
  const auto parts = [](const std::vector<IndexSet>& sets, std::size_t begin, std::size_t size) {
    return static_cast<std::size_t>(
        std::count_if(sets.begin(), sets.end(),
                      [&](const IndexSet& set) { return set.window(begin, size).size() > 0; }));
  };
  const std::size_t rows = parts(row_sets(b.layout), b.i, shape.rows);
  const std::size_t cols = parts(col_sets(b.layout), b.j, shape.cols);
  if (side == Side::left) return rows == 1 ? cols : 0;
  return cols == 1 ? rows : 0;
}

/// Begins a product, and returns memory for `elements` elements that all ranks share.
/// @throws CommunicationError, on all ranks, if the system does not have enough shared memory
template <class T>
[[nodiscard]] T* begin_shared(PblasSession& session, std::size_t elements)
{
  T* const memory =
      reinterpret_cast<T*>(session.shared().begin(session.world(), elements * sizeof(T)));
  require<CommunicationError>(
      memory != nullptr, "got a product that needs ", elements * sizeof(T),
      " bytes of shared memory, but the system refused them; free memory, or lower the limit of "
      "its workspace");
  session.world().barrier();  // no rank still reads the matrices of the last product
  return memory;
}

/// Calls f(A, mine) with the triangle in shared memory and this rank's elements of B.
/// @pre holders_of_lines(…) > 0
template <class T, class F>
void with_shared_triangle_alone(PblasSession& session, std::size_t kept, Triangle triangle,
                                const PlacedMatrix<const T>& a, const PlacedMatrix<T>& b,
                                PgemmReport& report, F f)
{
  auto& world = session.world();
  T* memory = begin_shared<T>(session, SharedMatrix<T>::elements(a.shape()));
  const SharedMatrix<T> shared_a{memory, a.shape()};
  const BlasThreads of_each{session.threads()};
  time_into(report.conversion, [&] { shared_a.read(a, part_of(triangle), world.rank()); });
  world.barrier();
  const LocalPart part = local_part(b.whole.place, b.size, world.rank());
  if (part.shape.size() > 0)
    time_into(report.product, [&] {
      f(shared_a, MatrixView<T>{b.whole.data + part.row + part.col * b.whole.ld, part.shape.cols,
                                part.shape.rows, b.whole.ld});
    });
  session.shared().end(kept);
}

/// Calls f(A, B, C) with the triangle, B and C in shared memory, and computes to = C + beta to. C
/// is B, or a third matrix if `apart`.
/// @throws CommunicationError, on all ranks, if the system does not have enough shared memory
template <class T, class F>
void with_shared_triangle(PblasSession& session, std::size_t kept, Triangle triangle,
                          const PlacedMatrix<const T>& a, const PlacedMatrix<const T>& b, T beta,
                          const PlacedMatrix<T>& to, bool apart, PgemmReport& report, F f)
{
  auto& world = session.world();
  const int rank = world.rank();
  const std::size_t elements =
      SharedMatrix<T>::elements(a.shape()) + (apart ? 2 : 1) * SharedMatrix<T>::elements(b.shape());
  T* memory = begin_shared<T>(session, elements);
  const SharedMatrix<T> shared_a{memory, a.shape()};
  const SharedMatrix<T> shared_b{memory, b.shape()};
  const SharedMatrix<T> shared_c = apart ? SharedMatrix<T>{memory, b.shape()} : shared_b;
  const BlasThreads of_each{session.threads()};
  time_into(report.conversion, [&] {
    shared_a.read(a, part_of(triangle), rank);
    shared_b.read(b, MatrixPart::all, rank);
  });
  world.barrier();
  if (is_worth_moving(world.size(), session.cores(),
                      double(a.size.rows) * double(b.size.rows) * double(b.size.cols)))
    move_to_core(rank);
  time_into(report.product, [&] { f(shared_a, shared_b, shared_c); });
  world.barrier();
  time_into(report.conversion, [&] { shared_c.add_to(to, beta, rank); });
  session.shared().end(kept);
}

}  // namespace cubist::CUBIST_ABI::detail
