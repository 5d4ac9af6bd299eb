// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Sums and transposes of distributed matrices, like ScaLAPACK's p?geadd, p?tradd, p?tran, p?tranu
// and p?tranc. Each is one conversion (foreign/convert.hpp), and sends nothing else.
//
//   add          C = alpha op(A) + beta C, or only one triangle of C (M, N), or trapezoid
//   transpose    C = alpha A^T + beta C, or A^H

#include <type_traits>

#include "cubist/comm/communicator.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/foreign/convert.hpp"
#include "cubist/foreign/foreign_matrix.hpp"
#include "cubist/foreign/matrix_part.hpp"

namespace cubist::CUBIST_ABI
{

/// Computes C = alpha op(A) + beta C for sub-matrices A and C of any layouts. If `part` is a
/// triangle, only that part of C is written, and only the elements of A that go there are read. All
/// ranks of `world` call it.
/// @pre A and C share no memory
/// @throws on all ranks ShapeError unless the shapes fit, MeshError for a matrix on another
/// communicator
template <Communicator C, class In, Scalar T>
requires std::is_same_v<std::remove_const_t<In>, T>
void add(C& world, const ForeignMatrix<In>& a, const ForeignMatrix<T>& c,
         const ConversionOptions<T>& how, MatrixPart part = MatrixPart::all)
{
  detail::convert<C, detail::HostMemory, T>(world, {}, a, c, how, part);
}

/// Computes C = alpha A^T + beta C, or C = alpha A^H + beta C with Op::adjoint, for sub-matrices A
/// (N, M) and C (M, N) of any layouts. All ranks of `world` call it.
/// @pre A and C share no memory
/// @throws ArgumentError for Op::none, and what `add` throws
template <Communicator C, class In, Scalar T>
requires std::is_same_v<std::remove_const_t<In>, T>
void transpose(C& world, const ForeignMatrix<In>& a, const ForeignMatrix<T>& c, T alpha = T{1},
               T beta = T{}, Op op = Op::transpose)
{
  require<ArgumentError>(op != Op::none,
                         "got a transpose with Op::none, which transposes nothing; use "
                         "Op::transpose or Op::adjoint, or call add");
  detail::convert<C, detail::HostMemory, T>(world, {}, a, c, {op, alpha, beta}, MatrixPart::all);
}

}  // namespace cubist::CUBIST_ABI
