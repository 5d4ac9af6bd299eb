// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A warning about BLAS kernels that are too old for the processor. OpenBLAS selects its kernels
// when it loads; a version older than the processor silently falls back to generic ones, which run
// at a fifth of the speed. `launch` prints the warning once in a process and once in a job, unless
// the environment has CUBIST_BLAS_WARNING=off.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "cubist/engine/host/blas_threads.hpp"

namespace cubist::CUBIST_ABI
{

/// The instruction sets of a processor that decide which kernels it can run.
struct Processor
{
  bool avx2 = false;    // AVX2 and fused multiply-add
  bool avx512 = false;  // the subsets that the SkylakeX kernels need

  /// Returns the processor that runs this program.
  [[nodiscard]] static Processor current()
  {
#if defined(__x86_64__) || defined(__i386__)
    return {__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"),
            __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
                __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                __builtin_cpu_supports("avx512vl")};
#else
    return {};
#endif
  }
};

/// Returns the warning for OpenBLAS kernels of this name on this processor; empty if there is none.
[[nodiscard]] inline std::string blas_warning(std::string_view kernels, Processor processor)
{
  using namespace std::string_view_literals;
  // OpenBLAS's kernels for x86 that predate AVX2.
  static constexpr std::array old{
      "Katmai"sv, "Coppermine"sv,  "Northwood"sv,    "Prescott"sv,   "Banias"sv,
      "Atom"sv,   "Core2"sv,       "Penryn"sv,       "Dunnington"sv, "Nehalem"sv,
      "Athlon"sv, "Opteron"sv,     "Opteron_SSE3"sv, "Barcelona"sv,  "Nano"sv,
      "Bobcat"sv, "Sandybridge"sv, "Bulldozer"sv,    "Piledriver"sv, "Steamroller"sv};
  if (!processor.avx2 || std::find(old.begin(), old.end(), kernels) == old.end()) return "";
  return "cubist: OpenBLAS runs its kernels for " + std::string{kernels} +
         " on a processor that has " + (processor.avx512 ? "AVX-512" : "AVX2") +
         ", so products may take several times as long as necessary; start the program with "
         "OPENBLAS_CORETYPE=" +
         (processor.avx512 ? "SkylakeX" : "Haswell") +
         " or link a newer OpenBLAS (CUBIST_BLAS_WARNING=off hides this)";
}

namespace detail
{

/// Returns this process's warning on the first call, and nothing on later ones.
[[nodiscard]] inline std::string take_blas_warning()
{
  static std::atomic<bool> taken{false};
  if (taken.exchange(true)) return "";
  const char* setting = std::getenv("CUBIST_BLAS_WARNING");
  if (setting != nullptr && std::string_view{setting} == "off") return "";
  return blas_warning(blas_core_name(), Processor::current());
}

/// Prints a line to standard error, unless it is empty.
inline void warn(const std::string& line)
{
  if (!line.empty()) std::fputs((line + '\n').c_str(), stderr);
}

}  // namespace detail

}  // namespace cubist::CUBIST_ABI
