// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Tells whether this build has a sanitizer, as tests that repeat a race then do so less often, and
// whether its tests are the quick ones, which train for fewer steps than those before a release.

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define CUBIST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define CUBIST_SANITIZED 1
#endif
#endif
#ifndef CUBIST_SANITIZED
#define CUBIST_SANITIZED 0
#endif

namespace cubist::test
{

inline constexpr bool sanitized = CUBIST_SANITIZED == 1;

#ifdef CUBIST_QUICK_TESTS
inline constexpr bool quick = true;
#else
inline constexpr bool quick = false;
#endif

/// The number of repeats: `usual`, or `fewer` under a sanitizer.
[[nodiscard]] constexpr int repeats(int usual, int fewer) { return sanitized ? fewer : usual; }
/// The number of repeats: `usual`, `fewer` in quick tests, or `fewest` under a sanitizer.
[[nodiscard]] constexpr int repeats(int usual, int fewer, int fewest)
{
  return repeats(quick ? fewer : usual, fewest);
}

}  // namespace cubist::test
