// SPDX-License-Identifier: BSD-3-Clause
#include <tuple>
#include <type_traits>
#include <vector>

#include "cubist/scheme/grid2d.hpp"
#include "cubist/scheme/grid3d.hpp"
#include "cubist/scheme/megatron1d.hpp"

#include "catch.hpp"
#include "sanitized.hpp"
#include "scheme_conformance.hpp"
#include "transformer_reference.hpp"

namespace cubist::test::transformer_test
{

namespace
{

/// Sanitizers have no use for another scalar, nor for a scheme whose products are another's in
/// another order: they see those of every scheme in its own tests.
using Scalars = std::conditional_t<sanitized, std::tuple<double>, std::tuple<double, float>>;
template <class S, class... Others>
inline constexpr bool is_one_of = (std::is_same_v<S, Others> || ...);
template <class S>
inline constexpr bool is_compared =
    !sanitized || is_one_of<S, Megatron1D, Grid3D, Cube3D, Summa2D, Summa25D>;

template <SchemeType S, class T = double>
requires(!is_compared<S>) void equals_references(const std::vector<TestMesh<S>>&) {}

/// Both models on each mesh that fits, with all that is known of them. In quick tests that is on
/// the first mesh of doubles only; floats, and processes, are on that mesh only.
template <SchemeType S, class T = double>
requires(is_compared<S>) void equals_references(std::vector<TestMesh<S>> meshes)
{
  using B = TestBackend;
  [[maybe_unused]] constexpr bool is_float = std::is_same_v<T, float>;
  const auto compared = [&]([[maybe_unused]] const TestMesh<S>& on) {
#ifdef CUBIST_QUICK_TESTS
    if (sanitized || is_float || &on != meshes.data()) return Compared::model;
#endif
    return Compared::all;
  };
#ifdef CUBIST_QUICK_TESTS
  if (few_suffice<B> || is_float) meshes.resize(1);
#endif
  for (const auto& on : meshes)
    for (const auto* model : {&gpt2_tiny(), &llama_tiny()})
    {
      if (!fits<B>(on.ranks)) continue;
      INFO(S::name << " on " << S::Axes::to_string(S::extents(on.extents, on.ranks)) << " in "
                   << element_name<T>() << ", " << model->folder);
      require_clear(on_ranks<B>(on.ranks, [&](typename B::Communicator& world) {
        const Mesh<S, B> mesh{world, on.extents};
        return check_reference<S, B, T>(mesh, *model, compared(on));
      }));
    }
}

}  // namespace

// The first mesh of each scheme is the one of quick tests under MPI and in float.
TEMPLATE_LIST_TEST_CASE("transformers on one axis are those of Hugging Face and PyTorch", "",
                        Scalars)
{
  equals_references<Megatron1D, TestType>({{3, {}}, {1, {}}, {2, {}}, {8, {}}});
  equals_references<Megatron1DSequence, TestType>({{3, {}}, {2, {}}, {4, {}}});
}

TEMPLATE_LIST_TEST_CASE("transformers on grids are those of Hugging Face and PyTorch", "", Scalars)
{
  equals_references<Grid2D, TestType>(
      {{6, {.x = 2, .y = 3}}, {4, {.x = 2, .y = 2}}, {4, {.x = 4, .y = 1}}});
  equals_references<Grid3D, TestType>({{6, {.x = 1, .y = 2, .z = 3}},
                                       {6, {.x = 3, .y = 1, .z = 2}},
                                       {8, {.x = 2, .y = 2, .z = 2}}});
  equals_references<Cube3D, TestType>({{8, {.q = 2}}, {1, {}}, {27, {.q = 3}}});
}

TEMPLATE_LIST_TEST_CASE("transformers on Summa2D are those of Hugging Face and PyTorch", "",
                        Scalars)
{
  equals_references<Summa2D, TestType>(
      {{6, {.rows = 2, .cols = 3}}, {4, {.q = 2}}, {4, {.rows = 4, .cols = 1}}});
  equals_references<Summa2DInput, TestType>(
      {{6, {.rows = 2, .cols = 3}}, {4, {.q = 2}}, {6, {.rows = 3, .cols = 2}}});
  equals_references<Summa2DWeight, TestType>(
      {{6, {.rows = 2, .cols = 3}}, {4, {.q = 2}}, {6, {.rows = 3, .cols = 2}}});
}

TEMPLATE_LIST_TEST_CASE("transformers on Summa25D are those of Hugging Face and PyTorch", "",
                        Scalars)
{
  equals_references<Summa25D, TestType>(
      {{8, {.q = 2, .d = 2}}, {3, {.q = 1, .d = 3}}, {4, {.q = 2, .d = 1}}});
  equals_references<Summa25DInput, TestType>(
      {{8, {.q = 2, .d = 2}}, {3, {.q = 1, .d = 3}}, {4, {.q = 2, .d = 1}}});
  equals_references<Summa25DWeight, TestType>(
      {{8, {.q = 2, .d = 2}}, {3, {.q = 1, .d = 3}}, {4, {.q = 2, .d = 1}}});
}

}  // namespace cubist::test::transformer_test
