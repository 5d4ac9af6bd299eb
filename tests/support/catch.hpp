// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Hides what changed from Catch2 2 to 3: Catch2 3 split the one header, moved Approx into a
// namespace, and renamed the matcher of substrings.
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <string>

#include <catch2/catch.hpp>

namespace Catch::Matchers
{
inline auto ContainsSubstring(const std::string& text) { return Contains(text); }
}  // namespace Catch::Matchers
#endif

// SKIP_TEST(reason) ends a test case that cannot run here. From 3.3 on, Catch2 counts it as
// skipped. Older versions print the reason as a warning, and the case passes.
#ifdef SKIP
#define SKIP_TEST(reason) SKIP(reason)
#else
#define SKIP_TEST(reason)                                                                          \
  do                                                                                               \
  {                                                                                                \
    WARN("skipped: " << (reason));                                                                 \
    return;                                                                                        \
  } while (false)
#endif
