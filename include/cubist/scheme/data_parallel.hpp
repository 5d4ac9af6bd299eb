// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A scheme on d meshes side by side: each multiplies its share of the rows, its batch, by the same
// weights.
//
//   X (M, K), Y (M, N): rows [data, S's] cols as S's
//   W (K, N): as S's, replicated along data; its gradient is summed along data
//
//   Mesh<DataParallel<Summa2D>, Threads> mesh{world, {.data = 2, .scheme = {.q = 2}}};
//
// Words a rank: those of S on one mesh for M/d rows, + 2(d-1)/d of its block of W in backward.
// Source: Shoeybi et al., "Megatron-LM", arXiv 1909.08053, section 3; Dean et al., "Large Scale
// Distributed Deep Networks", 2012.

#include <array>
#include <cstddef>
#include <string_view>
#include <type_traits>

#include "cubist/algorithm/gather/gather_multiply_scatter.hpp"
#include "cubist/core/error.hpp"
#include "cubist/dist/layout.hpp"
#include "cubist/scheme/extents.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

/// `Axes` or a layout, with Data in front of the axes or of those that cut the rows.
template <class>
struct BehindData;
template <class... A>
struct BehindData<Axes<A...>>
{
  using type = Axes<Data, A...>;
};
template <class... R, class Cols>
struct BehindData<Layout<Rows<R...>, Cols>>
{
  using type = Layout<Rows<Data, R...>, Cols>;
};

/// The algorithm of `S`, with the layouts of this scheme in place of those of `S`.
template <class Algorithm, class S>
struct AlgorithmFor
{
  using type = Algorithm;
};
template <class X, class W, class Y, class S>
struct AlgorithmFor<GatherMultiplyScatter<X, W, Y>, S>
{
  using type = GatherMultiplyScatter<typename S::Input, typename S::Weight, typename S::Output>;
};

/// The layouts of a scheme on several meshes.
template <class S>
struct DataParallelLayouts
{
  using Input = typename BehindData<typename S::Input>::type;
  using Weight = typename S::Weight;
  using Output = typename BehindData<typename S::Output>::type;
};

/// "DataParallel<", the name, ">"
template <class S>
constexpr auto data_parallel_name()
{
  constexpr std::string_view front = "DataParallel<";
  constexpr std::string_view name = S::name;
  std::array<char, front.size() + name.size() + 2> text{};
  std::size_t i = 0;
  for (const char c : front) text[i++] = c;
  for (const char c : name) text[i++] = c;
  text[i] = '>';
  return text;
}

template <class S>
inline constexpr auto data_parallel_text = data_parallel_name<S>();

}  // namespace detail

/// @tparam S a scheme, or a Pipeline (scheme/pipeline.hpp): then each mesh is one in stages
template <NetworkScheme S>
struct DataParallel : detail::DataParallelLayouts<S>
{
  static constexpr const char* name = detail::data_parallel_text<S>.data();

  using Scheme = S;  ///< on each of the meshes
  using Axes = typename detail::BehindData<typename S::Axes>::type;
  using Next = std::conditional_t<std::is_same_v<S, typename S::Next>, DataParallel,
                                  DataParallel<typename S::Next>>;
  using Algorithm =
      typename detail::AlgorithmFor<typename S::Algorithm, detail::DataParallelLayouts<S>>::type;

  /// The number of meshes, and the extents of each. If `data` is left out, it is the smallest
  /// number for which the scheme has a mesh on each part of the ranks.
  struct Extents
  {
    int data = 0;                     ///< meshes side by side; 0: what the scheme's extents leave
    typename S::Extents scheme = {};  ///< the extents of each mesh
  };

  /// (data, those of the scheme)
  /// @throws MeshError unless they multiply up to `ranks`
  [[nodiscard]] static typename Axes::Array extents(const Extents& requested, int ranks)
  {
    detail::require_extents(name, ranks, {{"data", requested.data}});
    if (requested.data != 0)
    {
      require<MeshError>(ranks % requested.data == 0, name, " got .data = ", requested.data,
                         " for ", ranks,
                         " ranks, which cannot be divided into that many meshes; use .data = ",
                         detail::largest_divisor(ranks, requested.data), ", or ",
                         detail::ranks_on({requested.data, ranks / requested.data + 1}), " ranks");
      return extents_of(requested.data, S::extents(requested.scheme, ranks / requested.data));
    }
    for (int data = 1; data <= ranks; ++data)
      if (ranks % data == 0)
      {
        try
        {
          return extents_of(data, S::extents(requested.scheme, ranks / data));
        }
        catch (const MeshError&)
        {
          continue;  // the scheme has no mesh of this many ranks: try more and smaller ones
        }
      }
    return extents_of(1,
                      S::extents(requested.scheme, ranks));  // throws, and names extents that fit
  }

  [[nodiscard]] static constexpr bool fits(const typename Axes::Array& e)
  {
    return e[0] >= 1 && S::fits(of_scheme(e));
  }

  /// The quantum of each mesh, since Data cuts whole batches.
  [[nodiscard]] static constexpr std::size_t quantum(const typename Axes::Array& e)
  {
    return S::quantum(of_scheme(e));
  }

  /// The extents of `data` meshes.
  [[nodiscard]] static constexpr typename Axes::Array
  extents_of(int data, const typename S::Axes::Array& scheme)
  {
    typename Axes::Array e{data};
    for (std::size_t i = 0; i < scheme.size(); ++i) e[i + 1] = scheme[i];
    return e;
  }

  /// The extents of one mesh.
  [[nodiscard]] static constexpr typename S::Axes::Array of_scheme(const typename Axes::Array& e)
  {
    typename S::Axes::Array scheme{};
    for (std::size_t i = 0; i < scheme.size(); ++i) scheme[i] = e[i + 1];
    return scheme;
  }
};

}  // namespace cubist::CUBIST_ABI
