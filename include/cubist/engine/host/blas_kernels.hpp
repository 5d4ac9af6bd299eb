// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Whether BLAS runs kernels that are worth of this processor. OpenBLAS chooses them when it loads:
// one that is older than the processor takes those of a processor of long ago, at a fifth of the
// speed, and keeps quiet about it. `launch` tells the user, once in a process and once in a job;
// CUBIST_BLAS_WARNING=off in the environment keeps it quiet, too.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "cubist/engine/host/blas_threads.hpp"

namespace cubist
{

/// The instructions of a processor that kernels make use of.
struct Processor
{
  bool avx2 = false;    // and fused multiply-add
  bool avx512 = false;  // as much of it as the SkylakeX kernels need

  /// The one that this runs on; one without either where compilers can't tell.
  [[nodiscard]] static Processor here()
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

/// What a user of these kernels, by OpenBLAS's name, is to know; empty if they will do.
[[nodiscard]] inline std::string blas_warning(std::string_view kernels, Processor processor)
{
  using namespace std::string_view_literals;
  // Those of OpenBLAS for x86 that are older than AVX2.
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

/// The warning that this process has still to give: the first call gets it, the others nothing.
[[nodiscard]] inline std::string take_blas_warning()
{
  static std::atomic<bool> taken{false};
  if (taken.exchange(true)) return "";
  const char* requested = std::getenv("CUBIST_BLAS_WARNING");
  if (requested != nullptr && std::string_view{requested} == "off") return "";
  return blas_warning(blas_core_name(), Processor::here());
}

/// On standard error, as a line of its own.
inline void warn(const std::string& line)
{
  if (!line.empty()) std::fputs((line + '\n').c_str(), stderr);
}

}  // namespace detail

}  // namespace cubist
