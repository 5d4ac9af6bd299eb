// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Several meshes of a scheme S along one more axis, which comes before S's axes. DataParallel and
// Pipeline share it.
//
//   struct Replicated : detail::FrontAxis<front_name, Data, S>   // its name is "front_name<S's>"

#include <array>
#include <cstddef>
#include <string_view>

#include "cubist/core/error.hpp"
#include "cubist/mesh/axes.hpp"
#include "cubist/scheme/extents.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// The axes `List`, after A.
template <class A, class List>
struct WithFront;
template <class A, class... Rest>
struct WithFront<A, Axes<Rest...>>
{
  using type = Axes<A, Rest...>;
};

/// The characters of "front<name>", with a zero at the end.
template <const auto& front, class S>
inline constexpr auto wrapped_name = [] {
  constexpr std::string_view before = front;
  constexpr std::string_view name = S::name;
  std::array<char, before.size() + name.size() + 3> text{};
  std::size_t i = 0;
  for (const char c : before) text[i++] = c;
  text[i++] = '<';
  for (const char c : name) text[i++] = c;
  text[i] = '>';
  return text;
}();

/// @tparam front  the name of the template that derives from this
/// @tparam A      the axis
/// @tparam S      the scheme of each mesh
template <const auto& front, class A, class S>
struct FrontAxis
{
  static constexpr const char* name = wrapped_name<front, S>.data();

  using Axes = typename WithFront<A, typename S::Axes>::type;

  [[nodiscard]] static constexpr bool fits(const typename Axes::Array& e)
  {
    return e[0] >= 1 && S::fits(of_scheme(e));
  }

  /// The quantum of each mesh, because the axis cuts none of S's dimensions.
  [[nodiscard]] static constexpr std::size_t quantum(const typename Axes::Array& e)
  {
    return S::quantum(of_scheme(e));
  }

  /// Returns the extents of `meshes` meshes.
  [[nodiscard]] static constexpr typename Axes::Array
  extents_of(int meshes, const typename S::Axes::Array& scheme)
  {
    typename Axes::Array e{meshes};
    for (std::size_t i = 0; i < scheme.size(); ++i) e[i + 1] = scheme[i];
    return e;
  }

  /// Returns the extents of one mesh.
  [[nodiscard]] static constexpr typename S::Axes::Array of_scheme(const typename Axes::Array& e)
  {
    typename S::Axes::Array scheme{};
    for (std::size_t i = 0; i < scheme.size(); ++i) scheme[i] = e[i + 1];
    return scheme;
  }

 protected:
  /// Returns the extents of all meshes on `ranks` ranks. If `meshes` is 0, takes the smallest
  /// number for which the scheme has a mesh on each part of the ranks.
  /// @param extent  the name of the extent that counts the meshes
  /// @throws MeshError unless their product is `ranks`
  [[nodiscard]] static typename Axes::Array
  extents_along(const char* extent, int meshes, const typename S::Extents& requested, int ranks)
  {
    const auto on_each = [&](int n) { return extents_of(n, S::extents(requested, ranks / n)); };
    require_extents(name, ranks, {{extent, meshes}});
    if (meshes != 0)
    {
      require<MeshError>(ranks % meshes == 0, name, " got .", extent, " = ", meshes, " for ", ranks,
                         " ranks, which cannot be divided into that many meshes; use .", extent,
                         " = ", largest_divisor(ranks, meshes), ", or ",
                         ranks_on({meshes, ranks / meshes + 1}), " ranks");
      return on_each(meshes);
    }
    for (int n = 1; n <= ranks; ++n)
      if (ranks % n == 0)
      {
        try
        {
          return on_each(n);
        }
        catch (const MeshError&)
        {
          continue;  // the scheme has no mesh of this many ranks: try more and smaller ones
        }
      }
    return on_each(1);  // throws, and names extents that fit
  }
};

}  // namespace cubist::CUBIST_ABI::detail
