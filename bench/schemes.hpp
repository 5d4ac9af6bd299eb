// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The schemes by their names on the command line, and their meshes.
// A new scheme is one more `Known` and one more line in `with_scheme`.

#include <string>
#include <vector>

#include <cubist/cubist.hpp>

namespace bench
{

inline const std::vector<std::string> scheme_names{"summa2d", "summa25d", "cube3d", "grid3d"};
/// Those that are measured unless the user names some; Cube3D is a Grid3D.
inline const std::vector<std::string> usual_schemes{"summa2d", "summa25d", "cube3d"};

/// The factors r <= c of `ranks` that are closest to each other.
struct NearSquare
{
  int rows = 1;
  int cols = 1;
  explicit NearSquare(int ranks)
  {
    for (int r = 1; r * r <= ranks; ++r)
      if (ranks % r == 0) rows = r;
    cols = ranks / rows;
  }
};

/// Whether there are extents, and their number is right.
inline bool given(const char* scheme, const std::vector<int>& mesh, std::size_t axes,
                  const char* example)
{
  cubist::require<cubist::MeshError>(mesh.empty() || mesh.size() == axes, "got a mesh of ",
                                     mesh.size(), " extents for ", scheme, ", which has ", axes,
                                     " axes, so it is unclear which is which; use --mesh ", example,
                                     ", or leave it out");
  return !mesh.empty();
}

/// What the benchmarks know of a scheme:
///   usual_ranks                    on threads, unless the user says how many
///   extents(mesh, ranks)           as the scheme wants them, from --mesh or from the ranks
template <class S>
struct Known;

template <>
struct Known<cubist::Summa2D>
{
  static constexpr int usual_ranks = 4;

  static cubist::Summa2D::Extents extents(const std::vector<int>& mesh, int ranks)
  {
    if (given("summa2d", mesh, 2, "2,2")) return {.rows = mesh[0], .cols = mesh[1]};
    const NearSquare square{ranks};
    return {.rows = square.rows, .cols = square.cols};
  }
};

template <>
struct Known<cubist::Summa25D>
{
  static constexpr int usual_ranks = 8;

  static cubist::Summa25D::Extents extents(const std::vector<int>& mesh, int)
  {
    if (!given("summa25d", mesh, 3, "2,2,2")) return {};
    cubist::require<cubist::MeshError>(
        mesh[1] == mesh[2], "got the mesh ", mesh[0], ",", mesh[1], ",", mesh[2],
        " for summa25d, whose layers are square; use --mesh d,q,q, for instance 2,2,2");
    return {.q = mesh[1], .d = mesh[0]};
  }
};

template <>
struct Known<cubist::Cube3D>
{
  static constexpr int usual_ranks = 8;

  static cubist::Cube3D::Extents extents(const std::vector<int>& mesh, int)
  {
    if (!given("cube3d", mesh, 3, "2,2,2")) return {};
    cubist::require<cubist::MeshError>(
        mesh[0] == mesh[1] && mesh[1] == mesh[2], "got the mesh ", mesh[0], ",", mesh[1], ",",
        mesh[2], " for cube3d, which is a cube; use --mesh q,q,q, for instance 2,2,2");
    return {.q = mesh[0]};
  }
};

template <>
struct Known<cubist::Grid3D>
{
  static constexpr int usual_ranks = 8;

  static cubist::Grid3D::Extents extents(const std::vector<int>& mesh, int)
  {
    if (!given("grid3d", mesh, 3, "2,2,2")) return {};
    return {.x = mesh[0], .y = mesh[1], .z = mesh[2]};
  }
};

/// Calls f.operator()<S>() for the scheme S of this name.
template <class F>
auto with_scheme(const std::string& name, F&& f)
{
  if (name == "summa2d") return f.template operator()<cubist::Summa2D>();
  if (name == "summa25d") return f.template operator()<cubist::Summa25D>();
  if (name == "cube3d") return f.template operator()<cubist::Cube3D>();
  if (name == "grid3d") return f.template operator()<cubist::Grid3D>();
  throw cubist::ArgumentError{"got the scheme " + name +
                              ", which the benchmark does not know; use one of those that --help "
                              "lists"};
}

}  // namespace bench
