// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Converts a foreign matrix to a DistMatrix and back, or to another foreign matrix.
//
//   to (M, N) = alpha op(from) + beta to
//
// If ranks share memory, they copy in place and send nothing. Otherwise each element is sent once
// to each rank that needs it and does not hold it, and a rank sends at most one message to each
// other rank (foreign/convert.hpp).
//
// A DistMatrix on a device is copied to or from host memory; messages are sent from the device.
//
// Source: Kabić, Pintarelli, Kozhevnikov, VandeVondele, "COSTA: communication-optimal shuffle and
// transpose algorithm with process relabeling", 2021.

#include <type_traits>
#include <utility>
#include <vector>

#include "cubist/comm/communicator.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/foreign/convert.hpp"
#include "cubist/foreign/foreign_matrix.hpp"
#include "cubist/foreign/matrix_part.hpp"
#include "cubist/matrix/dist_matrix.hpp"

namespace cubist::CUBIST_ABI
{

/// Copies op(A) of a foreign matrix A to a foreign matrix (M, N). All ranks of `world` call it.
/// An element with replicas is read from one of them, from this rank's own if there is one, and all
/// replicas are written.
/// @pre `from` and `to` share no memory
/// @throws on all ranks ShapeError unless the shapes fit, MeshError for a matrix on another
/// communicator
template <Communicator C, class In, Scalar T>
requires std::is_same_v<std::remove_const_t<In>, T>
void redistribute(C& world, const ForeignMatrix<In>& from, const ForeignMatrix<T>& to,
                  const ConversionOptions<T>& how = {})
{
  detail::convert<C, detail::HostMemory, T>(world, {}, from, to, how, MatrixPart::all);
}

/// Copies op(A) of a foreign matrix A to a DistMatrix (M, N), whose padding does not change. All
/// ranks of the mesh's parent, which is the communicator of `from`, call it, idle ones included.
/// @pre `from` and `to` share no memory
/// @throws on all ranks ShapeError unless the shapes fit, MeshError for a matrix on another
/// communicator
template <class In, Scalar T, class L, class M>
requires std::is_same_v<std::remove_const_t<In>, T>
void redistribute(const ForeignMatrix<In>& from, DistMatrix<T, L, M>& to,
                  const ConversionOptions<T>& how = {})
{
  using E = typename M::Engine;
  if constexpr (in_host_memory<E>)
    redistribute(to.mesh().parent(), from, ForeignMatrix<T>::of(to.view()), how);
  else
  {
    const E& engine = to.mesh().engine();
    std::vector<T> copy(to.padded().size());
    const MatrixView<T> host{copy.data(), to.padded().shape()};
    if (how.beta != T{}) engine.download(std::as_const(to).padded(), host);
    detail::convert<typename M::Communicator, E, T>(to.mesh().parent(), engine, from,
                                                    ForeignMatrix<T>::of(to.view(), copy.data()),
                                                    how, MatrixPart::all);
    engine.upload(MatrixView<const T>{host.block(0, 0, to.block().valid())}, to.valid());
  }
}

/// Copies op(A) of a DistMatrix A to a foreign matrix (M, N). All ranks of the mesh's parent,
/// which is the communicator of `to`, call it, idle ones included.
/// @pre `from` and `to` share no memory
/// @throws on all ranks ShapeError unless the shapes fit, MeshError for a matrix on another
/// communicator
template <Scalar T, class L, class M>
void redistribute(const DistMatrix<T, L, M>& from, const ForeignMatrix<T>& to,
                  const ConversionOptions<T>& how = {})
{
  using E = typename M::Engine;
  if constexpr (in_host_memory<E>)
    redistribute(from.mesh().parent(), ForeignMatrix<const T>::of(from.view()), to, how);
  else
  {
    const E& engine = from.mesh().engine();
    std::vector<T> copy(from.padded().size());
    if (how.alpha != T{})
      engine.download(from.padded(), MatrixView<T>{copy.data(), from.padded().shape()});
    detail::convert<typename M::Communicator, E, T>(
        from.mesh().parent(), engine, ForeignMatrix<const T>::of(from.view(), copy.data()), to, how,
        MatrixPart::all);
  }
}

}  // namespace cubist::CUBIST_ABI
