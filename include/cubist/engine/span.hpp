// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A named part of a program, such as "forward of layer 3". It lasts from the constructor to the
// destructor. An engine may show it (ShowsSpans in engine/engine.hpp); with other engines a span
// does nothing.

#include <array>
#include <concepts>
#include <cstddef>
#include <string>

#include "cubist/engine/engine.hpp"

namespace cubist::CUBIST_ABI
{

/// A text followed by numbers: {"layer", 3} is "layer 3", {"product", 4, 5, 6} "product 4x5x6",
/// {"Summa2D", "forward", 4, 5, 6} "Summa2D forward 4x5x6". The texts are not copied.
struct SpanName
{
  /// The maximum number of numbers in a name.
  static constexpr std::size_t most_numbers = 3;

  const char* owner = nullptr;  ///< the class that the span belongs to; null for none
  const char* text = "";        ///< what the span is
  /// Numbers after the text, such as the layer's index.
  std::array<std::size_t, most_numbers> numbers{};
  std::size_t count = 0;  ///< how many numbers there are

  SpanName() = default;
  /// Makes a name from a text and numbers.
  template <std::convertible_to<std::size_t>... N>
  requires(sizeof...(N) <= most_numbers) SpanName(const char* t, N... n)
      : text{t},
        numbers{static_cast<std::size_t>(n)...},
        count{sizeof...(N)}
  {
  }
  /// Makes a name from a class, a text, and numbers.
  template <std::convertible_to<std::size_t>... N>
  requires(sizeof...(N) <= most_numbers) SpanName(const char* of, const char* t, N... n)
      : SpanName{t, n...}
  {
    owner = of;
  }

  /// Returns the whole name, as a trace shows it.
  [[nodiscard]] std::string to_string() const
  {
    std::string s = owner == nullptr ? "" : std::string{owner} + " ";
    s += text;
    for (std::size_t i = 0; i < count; ++i) s += (i == 0 ? " " : "x") + std::to_string(numbers[i]);
    return s;
  }
};

template <class E>
class Span
{
 public:
  /// @param engine outlives the span
  Span([[maybe_unused]] const E& engine, [[maybe_unused]] const SpanName& name)
      : engine_{engine}
  {
    if constexpr (detail::ShowsSpans<E>) engine_.begin_span(name);
  }
  Span(Span&&) = delete;
  ~Span()
  {
    if constexpr (detail::ShowsSpans<E>) engine_.end_span();
  }

 private:
  const E& engine_;
};

}  // namespace cubist::CUBIST_ABI
