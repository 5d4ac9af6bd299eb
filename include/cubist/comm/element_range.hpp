// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The buffers that a communicator takes: contiguous ranges of elements.

#include <concepts>
#include <iterator>
#include <span>
#include <type_traits>
#include <utility>

#include "cubist/core/scalar.hpp"

namespace cubist::CUBIST_ABI
{

/// Contiguous elements: a std::span, std::vector, std::array, …
// clang-format off
template <class R>
concept ElementRange = requires(R& r) {
  requires Element<std::remove_cv_t<std::remove_pointer_t<decltype(std::data(r))>>>;
  std::size(r);
};
// clang-format on

/// The element type of a range, without const.
template <ElementRange R>
using ElementOf = std::remove_cv_t<std::remove_pointer_t<decltype(std::data(std::declval<R&>()))>>;

/// Two ranges with the same element type; the second is writable.
// clang-format off
template <class In, class Out>
concept SendReceive = ElementRange<const In> && ElementRange<Out> &&
                      std::same_as<ElementOf<const In>, ElementOf<Out>> && requires(Out& out) {
                        { std::data(out) } -> std::same_as<ElementOf<Out>*>;
                      };
// clang-format on

namespace detail
{

template <class R>
[[nodiscard]] auto read_span(const R& r)
{
  return std::span<const ElementOf<const R>>{std::data(r), std::size(r)};
}

template <class R>
[[nodiscard]] auto write_span(R& r)
{
  return std::span<ElementOf<R>>{std::data(r), std::size(r)};
}

}  // namespace detail

}  // namespace cubist::CUBIST_ABI
