// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The product of a distributed matrix with its own transpose, with half the operations of
// DistMatMul. X may have any layout on any mesh, so it may be a weight or an input of any scheme.
//
//   X (N, K) any layout              or X (K, N), if op is Op::transpose
//   A (N, N) rows [R] cols []        A = alpha op(X) op(X)^T + beta A0
//
// R are the axes that cut the rows of op(X). So each rank holds the complete rows of A that belong
// to its rows of op(X), and ranks along all other axes hold replicas. A is symmetric bit for bit.
// It is laid out as the X of another product: for A^2, the replicas split its columns among
// themselves.
//
// The steps are those of GramProduct (algorithm/gram/gram_product.hpp): R groups of ranks send each
// other half of X, the ranks of a group sum half of their rows of A, and groups exchange the
// mirrored half. Groups that share memory read both in place. A rank multiplies N^2 K / (2 P) pairs
// of elements, half of what gemm does.
//
// Elements that one rank sends, on average, for P = R S ranks in R groups of S, where R divides N:
//
//   G N K / P  +  (S - 1) N (N + 1) / P  +  (R - 1) N^2 / (2 R^2),   G = (R - 1) / 2 for odd R,
//                                                                       R / 2 - 1/4 for even R
//
// A gemm that leaves A in the same layout would send (R - 1) N K / P + 2 (S - 1) N^2 / P. Source:
// see algorithm/gram/gram_pieces.hpp.

#include <cstddef>
#include <type_traits>

#include "cubist/algorithm/gram/gram_product.hpp"
#include "cubist/algorithm/options.hpp"
#include "cubist/core/block.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/matmul/product_calls.hpp"
#include "cubist/matrix/dist_matrix.hpp"
#include "cubist/matrix/layout.hpp"
#include "cubist/mesh/mesh.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

template <class RowAxes>
struct RowsAlone;
template <class... R>
struct RowsAlone<Rows<R...>>
{
  using type = Layout<Rows<R...>, Cols<>>;
  using Groups = Axes<R...>;

  /// Returns the index of the part of the rows that the rank at these coordinates holds.
  template <class A>
  [[nodiscard]] static std::size_t index(const typename A::Array& extents,
                                         const typename A::Array& coordinates)
  {
    return cut<A, R...>(extents, coordinates).index;
  }
  template <class A>
  [[nodiscard]] static typename A::Array without(typename A::Array coordinates)
  {
    ((coordinates[A::template index<R>()] = 0), ...);
    return coordinates;
  }
};

/// Returns this rank's place in the product op(X) op(X)^T.
/// @param x the shape of op(X)
template <class L, class M>
[[nodiscard]] GramPlace<typename M::Communicator> gram_place(const M& mesh, Shape x, Quanta quanta)
{
  using A = typename M::Axes;
  using Gram = RowsAlone<typename L::RowAxes>;
  GramPlace<typename M::Communicator> place;
  place.groups = replicas_along(mesh, typename Gram::Groups{});
  place.sharing = replicas_along(mesh, typename PendingAxes<typename Gram::type, A>::type{});
  place.index = Gram::template index<A>(mesh.extents(), mesh.coordinates());
  const auto here = Gram::template without<A>(mesh.coordinates());
  int ranks = 0;
  for (int rank = 0; rank < mesh.size(); ++rank)
  {
    const auto coordinates = mesh.coordinates(rank);
    if (Gram::template without<A>(coordinates) != here) continue;
    const std::size_t group = Gram::template index<A>(mesh.extents(), coordinates);
    place.ranks.resize(std::max(place.ranks.size(), group + 1));
    place.rows.resize(place.ranks.size());
    place.ranks[group] = ranks++;
    place.rows[group] = L::template block<A>(x, mesh.extents(), coordinates, quanta).rows.valid;
  }
  const std::size_t cols =
      L::template block<A>(x, mesh.extents(), mesh.coordinates(), quanta).cols.valid;
  const auto replicas = [&]<class... Axis>(Axes<Axis...>) {
    return cut<A, Axis...>(mesh.extents(), mesh.coordinates());
  }(typename PendingAxes<L, A>::type{});
  place.inner = part_of_range({0, cols, cols}, replicas.parts, replicas.index);
  return place;
}

}  // namespace detail

/// The layout of op(X) op(X)^T for X of layout `L`.
template <class L, Op op = Op::none>
using GramLayout = typename detail::RowsAlone<
    typename std::conditional_t<op == Op::none, L, Transposed<L>>::RowAxes>::type;

/// A plan for products of matrices of one size with their own transposes. It owns its workspace,
/// and allocates nothing after the first call. Every rank of the mesh makes the plan and calls it,
/// from one thread at a time.
/// @throws from every call: ShapeError for matrices of other sizes, MeshError for matrices on
/// another mesh, ArgumentError for a result that is X, and for two calls at once
/// @tparam op the operation on the matrix that is passed
template <RealScalar T, class L, class M, Op op = Op::none>
class DistGram
{
  static_assert(op != Op::adjoint, "the adjoint of a real matrix is its transpose; use "
                                   "Op::transpose");

 public:
  using Mesh = M;
  /// The type of X.
  using Input = DistMatrix<T, L, M>;
  /// The type of the result.
  using Output = DistMatrix<T, GramLayout<L, op>, M>;

  /// @param n rows of op(X), and rows and columns of the result  @param k columns of op(X)
  /// @param quanta the quanta of X (DistMatrix::quanta); by default the mesh's
  /// @throws ShapeError for sizes that exceed 64 bits, MeshError for quanta that are not multiples
  /// of the mesh's, and on an idle rank; ArgumentError for a method that the ranks of the mesh
  /// cannot use
  DistGram(const M& mesh, std::size_t n, std::size_t k, Quanta quanta = 0,
           Method requested = Method::automatic)
      : mesh_{mesh},
        size_{.m = n, .n = n, .k = k},
        quanta_{quanta == Quanta{0} ? Quanta{mesh.quantum()}
                                    : detail::require_multiples(quanta, mesh.quantum())},
        product_{place(requested), mesh_.engine(), op, requested}
  {
  }

  [[nodiscard]] const M& mesh() const { return mesh_; }
  /// The shape of X.
  [[nodiscard]] Shape input_shape() const { return op_shape(op, {size_.m, size_.k}); }
  /// The shape of the result.
  [[nodiscard]] Shape output_shape() const { return {size_.m, size_.n}; }
  /// The quanta of the result.
  [[nodiscard]] Quanta output_quanta() const
  {
    return {detail::op_quanta(op, quanta_).rows, mesh_.quantum()};
  }

  /// Computes A = alpha op(X) op(X)^T + beta A. The elements of A are not read if beta is 0.
  /// @pre A is symmetric if beta is not 0
  void forward(const Input& x, Output& a, T alpha = T{1}, T beta = T{})
  {
    forward(x, a, a, alpha, beta);
  }

  /// Computes A = alpha op(X) op(X)^T + beta A0. A0 may be A, or X.
  /// @pre A0 is symmetric
  void forward(const Input& x, const Output& a0, Output& a, T alpha, T beta)
  {
    check("X", x, input_shape(), quanta_);
    check("A0", a0, output_shape(), output_quanta());
    check("A", a, output_shape(), output_quanta());
    detail::require_distinct("A", &a, {&x});
    const auto call = calls_.enter(mesh_.engine(), "forward");
    product_.multiply(alpha, x.padded(), beta, a0.padded(), a.padded());
  }

  /// Returns op(X) op(X)^T in a new matrix.
  [[nodiscard]] Output forward(const Input& x)
  {
    Output a{mesh_, output_shape(), output_quanta()};
    forward(x, a);
    return a;
  }

  /// The size of this rank's workspace in bytes, without the matrices.
  [[nodiscard]] std::size_t workspace_bytes() const { return product_.workspace_bytes(); }
  /// Frees the workspace; the next call allocates it again.
  void release_workspace() { product_.release_workspace(); }

 private:
  using OfOp = std::conditional_t<op == Op::none, L, Transposed<L>>;

  [[nodiscard]] auto place(Method requested) const
  {
    (void)detail::require_possible<T>(mesh_, requested, {input_shape(), output_shape()});
    return detail::gram_place<OfOp>(mesh_, {size_.m, size_.k}, detail::op_quanta(op, quanta_));
  }

  template <class Matrix>
  void check(const char* what, const Matrix& m, Shape expected, Quanta quanta) const
  {
    detail::require_operand(what, m.shape(), expected, m.quanta(), quanta, m.mesh() == mesh_,
                            size_);
  }

  M mesh_;
  ProductSize size_;
  Quanta quanta_;
  detail::GramProduct<T, typename M::Communicator, typename M::Engine> product_;
  detail::ProductCalls calls_{"Gram", size_};
};

}  // namespace cubist::CUBIST_ABI
