// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Sums of block-cyclic matrices (foreign/pgemm.hpp).

#include <type_traits>

#include <boost/mpi/communicator.hpp>

#include <cubist/core/block.hpp>
#include <cubist/core/scalar.hpp>
#include <cubist/engine/engine.hpp>
#include <cubist/engine/shapes.hpp>
#include <cubist/foreign/add.hpp>
#include <cubist/foreign/block_cyclic.hpp>
#include <cubist/foreign/foreign_matrix.hpp>
#include <cubist/foreign/matrix_part.hpp>
#include <cubist/foreign/pgemm.hpp>

#include "local_part.hpp"
#include "session.hpp"

namespace cubist::CUBIST_ABI
{

template <PblasScalar T>
void padd(const boost::mpi::communicator& comm, Op op, Shape shape, T alpha,
          const BlockCyclicMatrix<const std::type_identity_t<T>>& a, std::type_identity_t<T> beta,
          const BlockCyclicMatrix<std::type_identity_t<T>>& c, MatrixPart part)
{
  auto& session = detail::PblasSession::of(comm);
  session.run([&] {
    auto& world = session.world();
    const Shape stored = op_shape(op, shape);
    detail::require_block_cyclic("A", a, stored, alpha != T{}, world.rank(), world.size());
    detail::require_block_cyclic("C", c, shape, true, world.rank(), world.size());
    if (shape.size() == 0) return;
    if (alpha != T{}) detail::require_apart_in_sum<T>(op, part, a, beta, c, shape, world.rank());
    const ForeignMatrix<T> to{world, c, shape};
    // If A is not read, it may have no array.
    const ForeignMatrix<const T> from =
        alpha == T{} ? to : ForeignMatrix<const T>{world, a, stored};
    add(world, from, to, ConversionOptions<T>{alpha == T{} ? Op::none : op, alpha, beta}, part);
  });
}

}  // namespace cubist::CUBIST_ABI
