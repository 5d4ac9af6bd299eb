// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The schemes by their names on the command line: their meshes, and the words that they send.
// A new scheme is one more `Known` and one more line in `with_scheme`.

#include <string>
#include <vector>

#include <cubist/cubist.hpp>

namespace bench
{

inline const std::vector<std::string> scheme_names{"summa2d", "summa25d", "cube3d"};

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

/// The elements of X, W and Y, padded to the quantum of the mesh.
struct Operands
{
  double mk;
  double kn;
  double mn;

  Operands(cubist::ProductSize s, std::size_t quantum)
      : mk{area(s.m, s.k, quantum)}, kn{area(s.k, s.n, quantum)}, mn{area(s.m, s.n, quantum)}
  {
  }

 private:
  static double area(std::size_t rows, std::size_t cols, std::size_t quantum)
  {
    return static_cast<double>(cubist::pad(rows, quantum) * cubist::pad(cols, quantum));
  }
};

/// The words that a rank sends, averaged over the ranks, by the published formulas of ring
/// collectives and pipelined broadcasts; what was gathered in forward is kept for backward.
struct FormulaWords
{
  double forward = 0;
  double backward = 0;
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
///   words(extents, operands)       what a rank sends, by the formulas
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
  static FormulaWords words(const cubist::Summa2D::Axes::Array& e, const Operands& o)
  {
    const double r = e[0];
    const double c = e[1];
    const double f = ((c - 1) * o.mk + (r - 1) * o.kn) / (r * c);
    return {f, 2 * f};
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
  static FormulaWords words(const cubist::Summa25D::Axes::Array& e, const Operands& o)
  {
    const double d = e[0];
    const double q = e[1];
    const double f = (q - 1) / (q * q) * (o.mk / d + o.kn);
    return {f, 2 * f + 2 * (d - 1) / (d * q * q) * o.kn};
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
  static FormulaWords words(const cubist::Cube3D::Axes::Array& e, const Operands& o)
  {
    const double q = e[0];
    const double f = (q - 1) / (q * q * q) * (o.mk + o.kn + o.mn);
    return {f, f};
  }
};

/// Calls f.operator()<S>() for the scheme S of this name.
template <class F>
auto with_scheme(const std::string& name, F&& f)
{
  if (name == "summa2d") return f.template operator()<cubist::Summa2D>();
  if (name == "summa25d") return f.template operator()<cubist::Summa25D>();
  if (name == "cube3d") return f.template operator()<cubist::Cube3D>();
  throw cubist::ArgumentError{"got the scheme " + name +
                              ", which the benchmark does not know; use one of those that --help "
                              "lists"};
}

}  // namespace bench
