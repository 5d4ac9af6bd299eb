// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// What every reader must do, whatever it is given.

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

/// Stops the program, which is what a fuzzer calls a finding.
inline void demand(bool holds, const char* what)
{
  if (holds) return;
  std::fprintf(stderr, "it does not hold that %s\n", what);
  std::abort();
}

/// Whether a reader accepts what it is given. If not, it must say so by a DataError that can be
/// shown as it is.
template <class Read>
bool accepts(const Read& read)
try
{
  read();
  return true;
}
catch (const DataError& error)
{
  const std::string_view message = error.what();
  demand(message.size() < 500, "messages are short");
  demand(std::all_of(message.begin(), message.end(), [](char c) { return c >= ' ' && c <= '~'; }),
         "messages are printable");
  return false;
}

}  // namespace cubist::fuzz
