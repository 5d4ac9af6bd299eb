// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Properties that every parser must have for every input.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "cubist/core/error.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace cubist::fuzz
{

/// Aborts the program, which a fuzzer reports, unless the property holds.
inline void demand(bool holds, const char* what)
{
  if (holds) return;
  std::fprintf(stderr, "violated: %s\n", what);
  std::abort();
}

/// Whether a parser accepts its input. If not, it must throw an E with a short and printable
/// message.
template <class E = DataError, class Read>
bool accepts(const Read& read)
try
{
  read();
  return true;
}
catch (const E& error)
{
  const std::string_view message = error.what();
  demand(message.size() < 500, "messages are short");
  demand(std::all_of(message.begin(), message.end(), [](char c) { return c >= ' ' && c <= '~'; }),
         "messages are printable");
  return false;
}

}  // namespace cubist::fuzz
