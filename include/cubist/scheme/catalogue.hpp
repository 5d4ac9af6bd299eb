// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// All schemes, by type and by name. A new one is one more line.

#include <cctype>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>

#include "cubist/core/error.hpp"
#include "cubist/scheme/cube3d.hpp"
#include "cubist/scheme/grid2d.hpp"
#include "cubist/scheme/grid3d.hpp"
#include "cubist/scheme/megatron1d.hpp"
#include "cubist/scheme/summa25d.hpp"
#include "cubist/scheme/summa2d.hpp"

namespace cubist
{

template <class... S>
struct Schemes
{
};

// clang-format off
using Catalogue = Schemes<
    Megatron1D,
    Megatron1DSequence,
    Grid2D,
    Summa2D,
    Summa2DInput,
    Summa2DWeight,
    Summa25D,
    Summa25DInput,
    Summa25DWeight,
    Cube3D,
    Grid3D>;
// clang-format on

namespace detail
{

template <class F, class... S>
void for_each(Schemes<S...>, F& f)
{
  (f.template operator()<S>(), ...);
}

}  // namespace detail

/// Whether two names are the same but for capitals.
[[nodiscard]] inline bool same_name(std::string_view a, std::string_view b)
{
  if (a.size() != b.size()) return false;
  const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  for (std::size_t i = 0; i < a.size(); ++i)
    if (lower(a[i]) != lower(b[i])) return false;
  return true;
}

/// Calls f.operator()<S>() for every scheme.
template <class F>
void for_each_scheme(F&& f)
{
  detail::for_each(Catalogue{}, f);
}

/// "Megatron1D, Grid2D, …", for messages.
[[nodiscard]] inline std::string scheme_names()
{
  std::string names;
  for_each_scheme([&]<class S>() { names += (names.empty() ? "" : ", ") + std::string{S::name}; });
  return names;
}

/// Calls f.operator()<S>() for the scheme of this name; capitals do not matter.
/// @throws ArgumentError if there is none
template <class F>
void with_scheme(std::string_view name, F&& f)
{
  bool found = false;
  for_each_scheme([&]<class S>() {
    if (found || !same_name(name, S::name)) return;
    found = true;
    f.template operator()<S>();
  });
  require<ArgumentError>(found, "got the scheme \"", name,
                         "\", which is none of cubist's, so nothing is known of its meshes; use ",
                         scheme_names());
}

}  // namespace cubist
