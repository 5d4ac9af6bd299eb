// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Chooses the meshes, models, sizes and element types of a test: all of them before a release,
// fewer in quick tests, under sanitizers, and where many ranks are slow.

#include <cstddef>
#include <span>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "backend.hpp"
#include "sanitized.hpp"

namespace cubist::test
{

/// Whether many ranks on few cores are slow. Processes are, and so are NCCL's fake devices.
#ifdef CUBIST_TEST_NCCL
template <class B>
inline constexpr bool many_are_slow = true;
#else
template <class B>
inline constexpr bool many_are_slow = on_processes<B>;
#endif

/// Whether tests use few element types: under sanitizers, and where many ranks are slow. The
/// conformance suite of communicators tests all types.
template <class B>
inline constexpr bool few_suffice = sanitized || many_are_slow<B>;

/// The first subjects and, where ranks are threads, the others, too.
template <class First, class Others>
using AllOrFirst =
    std::conditional_t<few_suffice<TestBackend>, First,
                       decltype(std::tuple_cat(std::declval<First>(), std::declval<Others>()))>;

/// The first `count` of a list where few suffice, else all.
template <class T>
[[nodiscard]] std::span<const T> all_or_first(const std::vector<T>& list, std::size_t count,
                                              bool few)
{
  return std::span{list}.first(few && count < list.size() ? count : list.size());
}

/// Whether a scheme is the one that stands for its kind of layout. Networks need no others under
/// sanitizers, nor on processes in quick tests, because each scheme's own tests check its products.
template <class S>
inline constexpr bool is_typical =
    std::string_view{S::name} == "Megatron1D" || std::string_view{S::name} == "Cube3D" ||
    std::string_view{S::name} == "Summa25D";
inline constexpr bool few_schemes_suffice =
    few_suffice<TestBackend> && (quick || sanitized || !on_processes<TestBackend>);

}  // namespace cubist::test
