// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Checks that replicas are equal, bit by bit. Each rank computes fingerprints of its blocks. All
// ranks gather all fingerprints, and compare them along each axis that has replicas. No element is
// copied, and a matrix without replicas is not read.
//
// Data that one rank sends: (P-1) 64-bit values per matrix, for P ranks of the mesh.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cubist/core/error.hpp"
#include "cubist/core/fingerprint.hpp"
#include "cubist/engine/functions.hpp"
#include "cubist/matrix/dist_matrix.hpp"
#include "cubist/matrix/staging.hpp"
#include "cubist/matrix/state.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

/// Returns the ranks whose coordinates differ from those of `rank` only along one axis, in the
/// order of this axis.
template <class M>
[[nodiscard]] std::vector<int> ranks_along(const M& mesh, std::size_t axis, int rank)
{
  std::vector<int> ranks;
  auto at = mesh.coordinates(rank);
  for (at[axis] = 0; at[axis] < mesh.extents()[axis]; ++at[axis])
    ranks.push_back(M::Axes::rank(at, mesh.extents()));
  return ranks;
}

/// Returns the first rank whose block is not empty, or 0.
template <class T, class M>
[[nodiscard]] int first_holder(const DistView<T, M>& x)
{
  for (int rank = 0; rank < x.mesh.size(); ++rank)
    if (x.block(rank).valid().size() > 0) return rank;
  return 0;
}

/// Whether ranks along an axis hold replicas with elements.
template <class T, class M>
[[nodiscard]] bool is_replicated(const DistView<T, M>& x, std::size_t axis)
{
  if (x.mesh.extents()[axis] == 1 || x.shape.size() == 0) return false;
  const int first = first_holder(x);
  for (const int other : ranks_along(x.mesh, axis, first))
    if (other != first && x.block(other) == x.block(first)) return true;
  return false;
}

template <class T, class M>
[[nodiscard]] std::uint64_t block_fingerprint(const DistView<T, M>& x)
{
  bool has_replicas = false;
  for (std::size_t axis = 0; axis < M::Axes::count; ++axis) has_replicas |= is_replicated(x, axis);
  if (!has_replicas) return 0;
  const Block b = x.block(x.mesh.rank());
  return x.mesh.engine().fold(std::uint64_t{0}, Sum{},
                              FingerprintTerm{b.rows.offset, b.cols.offset, x.shape.cols},
                              x.valid());
}

/// @param fingerprint_of f(rank) returns the fingerprint of the rank's block
template <class T, class M, class F>
void compare_replicas(const NamedMatrix<const T, M>& x, F fingerprint_of)
{
  const M& mesh = x.matrix.mesh;
  for (std::size_t axis = 0; axis < M::Axes::count; ++axis)
    for (int rank = 0; is_replicated(x.matrix, axis) && rank < mesh.size(); ++rank)
    {
      if (mesh.coordinates(rank)[axis] != 0) continue;
      std::string others;
      for (const int other : ranks_along(mesh, axis, rank))
        if (fingerprint_of(other) != fingerprint_of(rank) &&
            x.matrix.block(other) == x.matrix.block(rank))
          others += (others.empty() ? "rank " : ", rank ") + std::to_string(other);
      require<ReplicaError>(
          others.empty(), x.name, " differs along ", M::Axes::name(axis), " between rank ", rank,
          " and ", others,
          ", so these ranks no longer hold the same matrix; look for code that only one "
          "of them ran, and set the matrix again, for instance from a checkpoint");
    }
}

}  // namespace detail

/// Compares the replicas of matrices on one mesh, bit by bit. All ranks of the mesh call it with
/// the same matrices; idle ranks may call it, too.
/// @throws ReplicaError on all ranks; it names the first matrix whose replicas differ, the axis and
/// the ranks. MeshError for matrices on several meshes
template <class T, class M>
void check_replicas(const std::vector<NamedMatrix<const T, M>>& matrices)
{
  if (matrices.empty() || !matrices.front().matrix.mesh.active()) return;
  auto& world = matrices.front().matrix.mesh.world();
  const std::size_t count = matrices.size();
  std::vector<std::uint64_t> all(count * static_cast<std::size_t>(world.size()));
  const std::size_t mine = count * static_cast<std::size_t>(world.rank());
  for (std::size_t i = 0; i < count; ++i)
  {
    const auto& x = matrices[i];
    require<MeshError>(x.matrix.mesh == matrices.front().matrix.mesh, "got ", x.name,
                       " on a different mesh from ", matrices.front().name,
                       ", so other ranks hold it; check the matrices of one mesh at a time");
    all[mine + i] = detail::block_fingerprint(x.matrix);
  }
  with_staging_buffer(matrices.front().matrix.mesh.engine(), std::span{all},
                      [&](auto values) { world.all_gather(values.subspan(mine, count), values); });
  for (std::size_t i = 0; i < count; ++i)
    detail::compare_replicas(
        matrices[i], [&](int rank) { return all[static_cast<std::size_t>(rank) * count + i]; });
}

}  // namespace cubist::CUBIST_ABI
