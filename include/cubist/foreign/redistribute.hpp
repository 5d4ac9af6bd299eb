// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Conversion between matrices of the program's and DistMatrix, and from one of the program's
// layouts to another.
//
//   to (M, N) = alpha op(from) + beta to
//
// Where ranks share memory (exposes()), they copy in place and send nothing; elsewhere each element
// is sent once to each rank that needs it and does not hold it, in one message from a rank to
// another.

#include <cstddef>
#include <type_traits>

#include "cubist/comm/communicator.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/dist/dist_matrix.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/foreign/distribution.hpp"
#include "cubist/foreign/foreign_matrix.hpp"

namespace cubist::CUBIST_ABI
{

/// to = alpha op(from) + beta to. With beta 0, `to` is overwritten, NaNs included; with alpha 0,
/// `from` is not read.
template <Scalar T>
struct Scaling
{
  Op op = Op::none;
  T alpha = T{1};
  T beta = T{};
};

/// Copies a foreign matrix (M, N) to a DistMatrix (M, N), or op of it. All ranks of the mesh's
/// parent call it, idle ones included; it is the communicator of `from`. Padding does not change,
/// all replicas get the values.
/// @pre the two share no memory
/// @throws ShapeError unless the shapes fit, MeshError for a matrix of another communicator; on all
/// ranks
template <class In, Scalar T, class L, class M>
requires std::is_same_v<std::remove_const_t<In>, T>
void redistribute(const ForeignMatrix<In>& from, DistMatrix<T, L, M>& to,
                  const Scaling<T>& how = {});

/// Copies a DistMatrix (M, N) to a foreign matrix (M, N), or op of it. An element that replicas
/// hold is read from one of them, from this rank's own if there is one.
/// @pre, @throws as above
template <Scalar T, class L, class M>
void redistribute(const DistMatrix<T, L, M>& from, const ForeignMatrix<T>& to,
                  const Scaling<T>& how = {});

/// Copies a foreign matrix (M, N) to another one, or op of it. All ranks of `world` call it.
/// @pre, @throws as above
template <Communicator C, class In, Scalar T>
requires std::is_same_v<std::remove_const_t<In>, T>
void redistribute(C& world, const ForeignMatrix<In>& from, const ForeignMatrix<T>& to,
                  const Scaling<T>& how = {});

/// What a conversion sends where ranks do not share memory.
struct ConversionCost
{
  std::size_t total = 0;     ///< elements that all ranks together send
  std::size_t sent = 0;      ///< the most that one rank sends
  std::size_t received = 0;  ///< the most that one rank receives
};

/// The cost of to = op(from), from the formulas of both; a function of the distributions that
/// sends nothing, and takes O(ranks) steps.
[[nodiscard]] ConversionCost conversion_cost(const Distribution& from, const Distribution& to,
                                             Op op = Op::none);

}  // namespace cubist::CUBIST_ABI
