// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Whether replicas are still equal, bit by bit. Each rank takes fingerprints of its blocks, all
// ranks get those of all, and compare them along each axis that holds replicas. No element is
// copied, and a matrix without replicas is not looked at.
//
// Words: (P-1) of 64 bits a matrix and rank, P being the ranks of the mesh.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cubist/core/error.hpp"
#include "cubist/core/fingerprint.hpp"
#include "cubist/dist/dist_matrix.hpp"
#include "cubist/dist/numbers.hpp"
#include "cubist/dist/state.hpp"
#include "cubist/engine/functions.hpp"

namespace cubist
{

namespace detail
{

/// The ranks that differ from `rank` only along an axis, in its order.
template <class M>
[[nodiscard]] std::vector<int> line(const M& mesh, std::size_t axis, int rank)
{
  std::vector<int> ranks;
  auto at = mesh.coordinates(rank);
  for (at[axis] = 0; at[axis] < mesh.extents()[axis]; ++at[axis])
    ranks.push_back(M::Axes::rank(at, mesh.extents()));
  return ranks;
}

/// Whether the ranks along an axis hold the same block, with elements in it.
template <class T, class M>
[[nodiscard]] bool replicated(const DistView<T, M>& x, std::size_t axis)
{
  if (x.mesh.extents()[axis] == 1 || x.shape.size() == 0) return false;
  return x.block(line(x.mesh, axis, 0)[1]) == x.block(0);
}

template <class T, class M>
[[nodiscard]] std::uint64_t fingerprint_of_block(const DistView<T, M>& x)
{
  bool has_replicas = false;
  for (std::size_t axis = 0; axis < M::Axes::count; ++axis) has_replicas |= replicated(x, axis);
  if (!has_replicas) return 0;
  const Block b = x.block(x.mesh.rank());
  return x.mesh.engine().fold(std::uint64_t{0}, Sum{},
                              FingerprintTerm{b.rows.offset, b.cols.offset, x.shape.cols},
                              x.valid());
}

/// @param fingerprint_of (rank) of its block
template <class T, class M, class F>
void compare_replicas(const NamedMatrix<const T, M>& x, F fingerprint_of)
{
  const M& mesh = x.matrix.mesh;
  for (std::size_t axis = 0; axis < M::Axes::count; ++axis)
    for (int rank = 0; replicated(x.matrix, axis) && rank < mesh.size(); ++rank)
    {
      if (mesh.coordinates(rank)[axis] != 0) continue;
      std::string others;
      for (const int other : line(mesh, axis, rank))
        if (fingerprint_of(other) != fingerprint_of(rank))
          others += (others.empty() ? "rank " : ", rank ") + std::to_string(other);
      require<ReplicaError>(others.empty(), x.name, " differs along ", M::Axes::name(axis),
                            " between rank ", rank, " and ", others,
                            ", so these ranks no longer work on one matrix; look for what only one "
                            "of them did to it, and set it anew, from a checkpoint for instance");
    }
}

}  // namespace detail

/// Compares the replicas of matrices, all of them on one mesh. Every rank of the mesh calls it with
/// the same ones, and idle ranks may.
/// @throws ReplicaError on every rank, the same, naming the first matrix whose replicas differ, the
/// axis and the ranks; MeshError for matrices on several meshes
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
                       " on another mesh than ", matrices.front().name,
                       ", so other ranks hold it; check the matrices of one mesh at a time");
    all[mine + i] = detail::fingerprint_of_block(x.matrix);
  }
  carry_numbers(matrices.front().matrix.mesh.engine(), std::span{all},
                [&](auto numbers) { world.all_gather(numbers.subspan(mine, count), numbers); });
  for (std::size_t i = 0; i < count; ++i)
    detail::compare_replicas(
        matrices[i], [&](int rank) { return all[static_cast<std::size_t>(rank) * count + i]; });
}

}  // namespace cubist
