// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The schemes of the catalogue by their names on the command line, and their meshes.

#include <string>
#include <vector>

#include <cubist/core/error.hpp>
#include <cubist/plan/meshes.hpp>
#include <cubist/scheme/catalogue.hpp>

namespace bench
{

/// The schemes for networks and for GPUs, which take longer to compile: Summa2D and Summa25D stand
/// for SUMMA, the others for gather, multiply, scatter.
using FewSchemes =
    cubist::Schemes<cubist::Summa2D, cubist::Summa25D, cubist::Cube3D, cubist::Grid3D>;

/// The schemes of products, MLPs and transformers on GPUs.
#ifdef CUBIST_BENCH_QUICK
using GpuProductSchemes = cubist::Schemes<cubist::Summa25D>;
using GpuMlpSchemes = GpuProductSchemes;
using GpuTransformerSchemes = GpuProductSchemes;
#else
using GpuProductSchemes = cubist::Catalogue;
using GpuMlpSchemes = FewSchemes;
using GpuTransformerSchemes = cubist::Schemes<cubist::Megatron1D, cubist::Summa25D, cubist::Cube3D>;
#endif

/// The schemes that are measured unless the user names some; Cube3D is a Grid3D.
inline const std::vector<std::string> usual_schemes{"Summa2D", "Summa25D", "Cube3D"};

/// The number of ranks on threads, unless the user names one: 2 along each axis.
template <class S>
inline constexpr int usual_ranks = 1 << S::Axes::count;

/// The extents that the user lists, else those that the scheme chooses for this many ranks, else,
/// if it has none but a single row fits, that row.
/// @throws cubist::MeshError unless they are a mesh of exactly this many ranks
template <class S>
[[nodiscard]] typename S::Axes::Array extents_for(const std::vector<int>& mesh, int ranks)
{
  using Array = typename S::Axes::Array;
  if (!mesh.empty())
  {
    const Array extents = cubist::extents_from_list<S>(mesh);
    cubist::require<cubist::MeshError>(
        S::Axes::ranks(extents) == ranks, "got the mesh ", S::Axes::to_string(extents), " for ",
        ranks, " ranks, so ranks would be left out or missing; use --ranks ",
        S::Axes::ranks(extents), ", or another mesh");
    return extents;
  }
  try
  {
    return S::extents({}, ranks);
  }
  catch (const cubist::MeshError&)
  {
    Array row{};
    row.fill(1);
    row.back() = ranks;
    if (ranks < 1 || !S::fits(row)) throw;
    return row;
  }
}

}  // namespace bench
