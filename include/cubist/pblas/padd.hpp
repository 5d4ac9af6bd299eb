// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// ScaLAPACK's sums of block-cyclic matrices, p?geadd, p?tran and p?tradd:
//
//   C (m, n) = alpha op(A) + beta C, or that in one trapezoid of C
//
// Words: those of the conversion (foreign/add.hpp).

#include <type_traits>

#include <boost/mpi/communicator.hpp>

#include "cubist/core/block.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/engine/shapes.hpp"
#include "cubist/foreign/add.hpp"
#include "cubist/foreign/distribution.hpp"
#include "cubist/foreign/foreign_matrix.hpp"
#include "cubist/pblas/block_cyclic_matrix.hpp"
#include "cubist/pblas/local_part.hpp"
#include "cubist/pblas/session.hpp"

namespace cubist::CUBIST_ABI
{

/// C = alpha op(A) + beta C. All ranks of the communicator call it with the same arguments, except
/// the arrays and leading dimensions. With a trapezoid as `part`, the other elements of C do not
/// change, and those of op(A) have no influence.
/// @param shape of C
/// @pre C shares no memory with A, or both are sub-matrices of one array, which has no element that
/// is read and written; elements that depend on themselves alone may be both, but in a trapezoid
/// only if beta is 1
/// @throws ArgumentError, MeshError, ShapeError for wrong arguments; PeerFailed on the other ranks
/// if one has thrown
template <Scalar T>
void padd(const boost::mpi::communicator& comm, Op op, Shape shape, T alpha,
          const BlockCyclicMatrix<const std::type_identity_t<T>>& a, std::type_identity_t<T> beta,
          const BlockCyclicMatrix<std::type_identity_t<T>>& c, MatrixPart part = MatrixPart::all)
{
  auto& session = detail::PblasSession::of(comm);
  session.run([&] {
    auto& world = session.world();
    const Shape stored = op_shape(op, shape);
    detail::require_block_cyclic("A", a, stored, alpha != T{}, world.rank(), world.size());
    detail::require_block_cyclic("C", c, shape, true, world.rank(), world.size());
    if (shape.size() == 0) return;
    if (alpha != T{}) detail::require_apart_in_sum<T>(op, part, a, beta, c, shape, world.rank());
    const ForeignMatrix<T> to{world, Distribution{c.place, shape}, c.data, c.ld};
    // If A is not read, it may have no array.
    const ForeignMatrix<const T> from =
        alpha == T{} ? to
                     : ForeignMatrix<const T>{world, Distribution{a.place, stored}, a.data, a.ld};
    add(world, from, to, ConversionOptions<T>{alpha == T{} ? Op::none : op, alpha, beta}, part);
  });
}

}  // namespace cubist::CUBIST_ABI
