// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Names what determines the time of some work on an engine that computes nothing (RemembersTimes in
// engine/engine.hpp).

#include <array>
#include <compare>
#include <cstddef>

#include "cubist/version.hpp"

namespace cubist::CUBIST_ABI
{

/// The name of some work. Work with equal names takes equal time.
struct RepeatedWork
{
  const void* code = nullptr;           ///< an address that no other code has
  std::array<std::size_t, 12> sizes{};  ///< all numbers on which the time depends

  /// Orders names arbitrarily, so that they may be the keys of a map.
  friend auto operator<=>(const RepeatedWork&, const RepeatedWork&) = default;
};

/// Returns a name for the code that a type stands for, such as that of a lambda.
template <class Code>
[[nodiscard]] const void* code_of()
{
  static const char address{};
  return &address;
}

}  // namespace cubist::CUBIST_ABI
