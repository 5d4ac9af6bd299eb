// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Properties that every parser must have for every input, and the macro that begins a fuzz target.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string_view>

#include "cubist/core/error.hpp"

namespace cubist::fuzz
{

using Target = int (*)(const std::uint8_t*, std::size_t);

/// This program's targets, by the names of their readers.
inline std::map<std::string_view, Target>& targets()
{
  static std::map<std::string_view, Target> all;
  return all;
}

/// Aborts the program if the property does not hold; a fuzzer reports that.
inline void demand(bool holds, const char* what)
{
  if (holds) return;
  std::fprintf(stderr, "violated: %s\n", what);
  std::abort();
}

/// Whether a parser accepts its input. If it does not, it must throw an E with a short, printable
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

// CUBIST_FUZZ_TARGET(reader) { … } defines the target that gives `reader` the bytes
// [data, data + size) and returns 0. libFuzzer wants one target with a fixed name in a program;
// fuzz/replay.cpp has all of them.
#ifdef CUBIST_FUZZER
#define CUBIST_FUZZ_TARGET(reader)                                                                 \
  extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);               \
  extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
#else
#define CUBIST_FUZZ_TARGET(reader)                                                                 \
  static int fuzz_##reader(const std::uint8_t* data, std::size_t size);                            \
  [[maybe_unused]] static const bool has_##reader =                                                \
      cubist::fuzz::targets().emplace(#reader, &fuzz_##reader).second;                             \
  static int fuzz_##reader(const std::uint8_t* data, std::size_t size)
#endif
