// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// ScaLAPACK's products and sums of block-cyclic matrices:
//
//   pgemm    C (m, n) = alpha op(A) op(B) + beta C,   op(A) (m, k), op(B) (k, n)
//   padd     C (m, n) = alpha op(A) + beta C, or only a trapezoid of it
//   psymm    C (m, n) = alpha A B + beta C, or alpha B A + beta C, for a symmetric or Hermitian A
//   ptrmm    B (m, n) = alpha op(A) B, or alpha B op(A), for a triangular A
//   ptrsm    B (m, n) = alpha op(A)^-1 B, or alpha B op(A)^-1, for a triangular A
//   psyrk    a triangle of C (n, n) = alpha op(A) op(A)^T + beta C, or with the adjoint
//
//   using cubist::pgemm, cubist::Op;
//   cubist::BlockCyclic layout{.shape = {n, n}, .block = {64, 64}, .grid = {2, 2}};
//   pgemm<double>(comm, Op::none, Op::transpose, {n, n, n}, 1.0, {{layout}, a, ld},
//                 {{layout}, b, ld}, 0.0, {{layout}, c, ld});
//
// They are compiled: a program links cubist::pblas, which is libcubist_pblas. As in BLAS, A and B
// are not read if alpha is 0, and C is not read if beta is 0.
//
// Elements sent: between nodes, those of panels of A and B (pblas/gemm_panels.hpp), or of a scheme
// and its conversions (foreign/convert.hpp). For products with a triangle, see
// foreign/triangular.hpp and, between nodes, pblas/triangular_panels.hpp.

#include <cstddef>
#include <optional>
#include <string>
#include <type_traits>

#include <boost/mpi/communicator.hpp>

#include "cubist/algorithm/options.hpp"
#include "cubist/core/block.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/foreign/block_cyclic.hpp"
#include "cubist/foreign/matrix_part.hpp"
#include "cubist/machine/machine.hpp"

namespace cubist::CUBIST_ABI
{

/// A scalar of ScaLAPACK's matrices: float, double, or a complex number of these.
template <class T>
concept PblasScalar = Scalar<T> && !ShortReal<T>;

/// How this rank computed one call of a product.
struct PgemmReport
{
  std::string chosen;     ///< the algorithm and its workspace, as text
  double conversion = 0;  ///< seconds in which this rank converted or copied A, B and C
  double product = 0;     ///< seconds in which it multiplied, and with a scheme also communicated
  /// The bytes of workspace that are kept for later calls on the communicator, on this rank, or in
  /// the memory that all ranks share.
  std::size_t kept = 0;
};

/// How a product of block-cyclic matrices is computed; the same on all ranks.
struct PgemmOptions
{
  /// Method::direct uses shared memory, and throws an ArgumentError if ranks share none.
  /// Method::collectives uses a scheme with conversions, where Method::automatic may leave C in
  /// place and send panels of A and B.
  Method method = Method::automatic;
  /// The maximum number of bytes that A and B may take in shared memory at a time, on all ranks
  /// together.
  std::size_t shared_bytes = std::size_t{2} << 30;
  /// The maximum workspace that is kept for later calls, as a fraction of A, B and C in the largest
  /// of the last 32 different calls. The rest is freed after each call. The default is 1 if ranks
  /// share memory, which holds A and B only once. Otherwise it is a half, or 3 after a call that
  /// repeats an earlier one, because new memory would cost more time than the product.
  std::optional<double> kept = {};
  /// The machine's figures for the planner. The library finds the numbers of cores and of ranks on
  /// a node itself.
  Machine machine = {};
  /// Receives a report on how the call was computed, unless it is null.
  PgemmReport* report = nullptr;
};

/// Computes C = alpha op(A) op(B) + beta C. All ranks of the communicator call it with the same
/// arguments, except the arrays and leading dimensions.
/// @param size m, n and k
/// @pre C shares no memory with A or B
/// @throws ArgumentError, MeshError, ShapeError for wrong arguments; CommunicationError if ranks
/// cannot exchange data, PeerFailed on the other ranks if one has thrown
template <PblasScalar T>
[[gnu::visibility("default")]] void
pgemm(const boost::mpi::communicator& comm, Op op_a, Op op_b, ProductSize size, T alpha,
      const BlockCyclicMatrix<const std::type_identity_t<T>>& a,
      const BlockCyclicMatrix<const std::type_identity_t<T>>& b, std::type_identity_t<T> beta,
      const BlockCyclicMatrix<std::type_identity_t<T>>& c, const PgemmOptions& options = {});

/// Computes C = alpha op(A) + beta C. All ranks of the communicator call it with the same
/// arguments, except the arrays and leading dimensions. If `part` is a trapezoid, the other
/// elements of C do not change, and those of op(A) are ignored.
/// @param shape the shape of C
/// @pre C shares no memory with A, or both are sub-matrices of one array in which no element is
/// both read and written. An element that depends only on itself may be both, but in a trapezoid
/// only if beta is 1
/// @throws ArgumentError, MeshError, ShapeError for wrong arguments; PeerFailed on the other ranks
/// if one has thrown
template <PblasScalar T>
[[gnu::visibility("default")]] void
padd(const boost::mpi::communicator& comm, Op op, Shape shape, T alpha,
     const BlockCyclicMatrix<const std::type_identity_t<T>>& a, std::type_identity_t<T> beta,
     const BlockCyclicMatrix<std::type_identity_t<T>>& c, MatrixPart part = MatrixPart::all);

/// Computes C = alpha A B + beta C, or C = alpha B A + beta C, for a symmetric or Hermitian matrix
/// A, of which only one triangle is read. All ranks of the communicator call it with the same
/// arguments, except the arrays and leading dimensions.
/// @param shape the shape of B and C
/// @pre C shares no memory with B, nor with the triangle of A
/// @throws what pgemm throws
template <PblasScalar T>
[[gnu::visibility("default")]] void
psymm(const boost::mpi::communicator& comm, const SymmetricOperand& how, Shape shape, T alpha,
      const BlockCyclicMatrix<const std::type_identity_t<T>>& a,
      const BlockCyclicMatrix<const std::type_identity_t<T>>& b, std::type_identity_t<T> beta,
      const BlockCyclicMatrix<std::type_identity_t<T>>& c, const PgemmOptions& options = {});

/// Computes B = alpha op(A) B, or B = alpha B op(A), for a triangular matrix A. All ranks of the
/// communicator call it with the same arguments, except the arrays and leading dimensions.
/// @param shape the shape of B
/// @pre B shares no memory with the triangle of A
/// @throws what pgemm throws
template <PblasScalar T>
[[gnu::visibility("default")]] void
ptrmm(const boost::mpi::communicator& comm, const TriangularOperand& how, Shape shape, T alpha,
      const BlockCyclicMatrix<const std::type_identity_t<T>>& a,
      const BlockCyclicMatrix<std::type_identity_t<T>>& b, const PgemmOptions& options = {});

/// Solves op(A) X = alpha B, or X op(A) = alpha B, for a triangular matrix A; B becomes X. All
/// ranks of the communicator call it with the same arguments, except the arrays and leading
/// dimensions.
/// @param shape the shape of B
/// @pre B shares no memory with the triangle of A
/// @throws what pgemm throws
template <PblasScalar T>
[[gnu::visibility("default")]] void
ptrsm(const boost::mpi::communicator& comm, const TriangularOperand& how, Shape shape, T alpha,
      const BlockCyclicMatrix<const std::type_identity_t<T>>& a,
      const BlockCyclicMatrix<std::type_identity_t<T>>& b, const PgemmOptions& options = {});

/// Computes a triangle of C (n, n) = alpha A A^T + beta C for A (n, k), or alpha A^T A + beta C for
/// A (k, n) if op is not Op::none. With Symmetry::hermitian, the adjoint replaces the transpose,
/// and the diagonal of C becomes real. The other triangle of C does not change. All ranks of the
/// communicator call it with the same arguments, except the arrays and leading dimensions.
/// @param shape n and k
/// @pre the triangle of C shares no memory with A; for a Hermitian C, alpha and beta are real
/// @throws what pgemm throws
template <PblasScalar T>
[[gnu::visibility("default")]] void
psyrk(const boost::mpi::communicator& comm, Triangle triangle, Op op, Symmetry symmetry,
      Shape shape, T alpha, const BlockCyclicMatrix<const std::type_identity_t<T>>& a,
      std::type_identity_t<T> beta, const BlockCyclicMatrix<std::type_identity_t<T>>& c,
      const PgemmOptions& options = {});

}  // namespace cubist::CUBIST_ABI
