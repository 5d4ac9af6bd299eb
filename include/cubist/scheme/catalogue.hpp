// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The catalogue of schemes, by type and by name. The planner, the tools, the examples, the
// benchmarks and the tests read it, so a new scheme takes a header, a test, and a line in
// `Catalogue`.
//
//   for_each_scheme([&]<class S>() { ... });                         // every scheme
//   with_scheme("summa2d", [&]<class S>() { return ...; });          // the scheme with this name
//   with_scheme<Schemes<Summa2D, Grid3D>>(name, f);                  // one of these schemes
//   with_scheme<DataCatalogue>("DataParallel<Summa2D>", f);          // one with a data axis
//   with_scheme<WholeCatalogue>(name, f);                            // with or without one
//   with_scheme<PipelineCatalogue>("Pipeline<DataParallel<Summa2D>>", f);  // networks in stages

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "cubist/core/error.hpp"
#include "cubist/scheme/cube3d.hpp"
#include "cubist/scheme/data_parallel.hpp"
#include "cubist/scheme/grid2d.hpp"
#include "cubist/scheme/grid3d.hpp"
#include "cubist/scheme/megatron1d.hpp"
#include "cubist/scheme/pipeline.hpp"
#include "cubist/scheme/summa25d.hpp"
#include "cubist/scheme/summa2d.hpp"

namespace cubist::CUBIST_ABI
{

/// A list of schemes.
template <class... S>
struct Schemes
{
  static constexpr std::size_t size = sizeof...(S);
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

template <class List>
struct WithData;
template <class... S>
struct WithData<Schemes<S...>>
{
  using type = Schemes<DataParallel<S>...>;
  using both = Schemes<S..., DataParallel<S>...>;
  using stages = Schemes<Pipeline<DataParallel<S>>...>;
};

}  // namespace detail

/// Every scheme of the catalogue with a data axis.
using DataCatalogue = detail::WithData<Catalogue>::type;
/// Every scheme, without a data axis and with one.
using WholeCatalogue = detail::WithData<Catalogue>::both;
/// Every scheme in the stages of a pipeline, with a data axis inside each stage, so that the ranks
/// of a stage are neighbours in a job. Only networks use these schemes.
using PipelineCatalogue = detail::WithData<Catalogue>::stages;

/// Whether two names are equal, ignoring case.
[[nodiscard]] inline bool same_name(std::string_view a, std::string_view b)
{
  const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  const auto are_same = [lower](char x, char y) { return lower(x) == lower(y); };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), are_same);
}

namespace detail
{

/// @pre the list contains the name
template <class F, class First, class... Rest>
decltype(auto) call_for_name(Schemes<First, Rest...>, [[maybe_unused]] std::string_view name, F& f)
{
  if constexpr (sizeof...(Rest) > 0)
    if (!same_name(name, First::name)) return call_for_name(Schemes<Rest...>{}, name, f);
  return f.template operator()<First>();
}

}  // namespace detail

/// Calls f.operator()<S>() for every scheme of a list, in the list's order.
template <class List = Catalogue, class F>
void for_each_scheme(F&& f)
{
  [&]<class... S>(Schemes<S...>) { (f.template operator()<S>(), ...); }(List{});
}

/// Returns the names in a list, for the choices of a command line.
template <class List = Catalogue>
[[nodiscard]] std::vector<std::string> scheme_name_list()
{
  std::vector<std::string> names;
  for_each_scheme<List>([&]<class S>() { names.emplace_back(S::name); });
  return names;
}

/// Returns "Megatron1D, Grid2D, …", for messages.
template <class List = Catalogue>
[[nodiscard]] std::string scheme_names()
{
  std::string names;
  for_each_scheme<List>(
      [&]<class S>() { names += (names.empty() ? "" : ", ") + std::string{S::name}; });
  return names;
}

/// Whether a list contains a scheme with this name.
template <class List = Catalogue>
[[nodiscard]] bool has_scheme(std::string_view name)
{
  bool found = false;
  for_each_scheme<List>([&]<class S>() { found = found || same_name(name, S::name); });
  return found;
}

/// Returns f.operator()<S>() for the scheme with this name, ignoring case.
/// @throws ArgumentError for a name that is not in the list
template <class List = Catalogue, class F>
decltype(auto) with_scheme(std::string_view name, F&& f)
{
  require<ArgumentError>(has_scheme<List>(name), "got the scheme \"", name, "\", ",
                         has_scheme(name)
                             ? "for which this program was not compiled, so it cannot run; use "
                             : "which cubist does not know, so its meshes are unknown; use ",
                         scheme_names<List>());
  return detail::call_for_name(List{}, name, f);
}

}  // namespace cubist::CUBIST_ABI
