// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The instruction sets for which the host's loops are compiled. The best one that the processor has
// is selected at run time. The environment variable CUBIST_INSTRUCTIONS names the best one to use:
// avx512, avx2, or compiled, which stands for the one that the compiler's flags select.
//
//   CUBIST_X86_TARGETS    defined if sets beyond the compiler's default are used
//   CUBIST_AVX2, CUBIST_AVX512    attributes of a function that is compiled for that set
//   CUBIST_INDEPENDENT    marks a loop whose iterations are independent
//   CUBIST_UNROLLED       marks a loop of few iterations that is unrolled at any level of
//                         optimization, so that arrays that it indexes stay in registers

#include <cstdlib>
#include <string_view>

#include "cubist/core/error.hpp"
#include "cubist/version.hpp"

// Without optimization nothing is inlined into the loops, so other instruction sets are useless.
#if defined __x86_64__ && defined __OPTIMIZE__ && (defined __GNUC__ || defined __clang__)
#define CUBIST_X86_TARGETS
#include <cpuid.h>
#endif

#if defined __clang__
#define CUBIST_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#define CUBIST_UNROLLED _Pragma("clang loop unroll(full)")
#define CUBIST_WIDE
#else
#define CUBIST_INDEPENDENT _Pragma("GCC ivdep")
#define CUBIST_UNROLLED _Pragma("GCC unroll 16")
#define CUBIST_WIDE ",prefer-vector-width=512"
#endif
#define CUBIST_AVX2 gnu::target("avx2,fma,f16c")
#define CUBIST_AVX512 gnu::target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl" CUBIST_WIDE)

namespace cubist::CUBIST_ABI::detail
{

/// An instruction set for which loops are compiled.
enum class Target
{
  as_compiled,
  avx2,
  avx512
};

[[nodiscard]] inline bool supports(Target target)
{
#ifdef CUBIST_X86_TARGETS
  unsigned a = 0, b = 0, c = 0, d = 0;  // clang 14's __builtin_cpu_supports lacks f16c
  const bool f16c = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
  const bool avx2 = f16c && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (target == Target::avx2) return avx2;
  if (target == Target::avx512)
    return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#endif
  return target == Target::as_compiled;
}

/// Returns the best instruction set that a value of CUBIST_INSTRUCTIONS permits.
/// @param value null if the variable is not set
/// @throws ArgumentError for a value that names no instruction set
[[nodiscard]] inline Target permitted_target(const char* value)
{
  const std::string_view name = value == nullptr ? "avx512" : value;
  if (name == "avx512") return Target::avx512;
  if (name == "avx2") return Target::avx2;
  require<ArgumentError>(name == "compiled", "got CUBIST_INSTRUCTIONS=", name,
                         ", which names no instruction set; set it to avx512, avx2 or compiled, or "
                         "unset it");
  return Target::as_compiled;
}

/// Returns the best instruction set that this processor supports and CUBIST_INSTRUCTIONS permits.
/// @throws ArgumentError if the variable names no instruction set
[[nodiscard]] inline Target best_target()
{
  static const Target best = [] {
    const Target most = permitted_target(std::getenv("CUBIST_INSTRUCTIONS"));
    for (const Target t : {Target::avx512, Target::avx2})
      if (t <= most && supports(t)) return t;
    return Target::as_compiled;
  }();
  return best;
}

#if defined __clang__
// clang warns about loops in f that it cannot vectorise.
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wpass-failed"
#endif

/// Calls f(a…), compiled for the instruction set in its name.
/// @param f is a function object whose call is always inlined
template <class F, class... A>
[[gnu::noinline, gnu::flatten]] void call_as_compiled(F f, A... a)
{
  f(a...);
}
#ifdef CUBIST_X86_TARGETS
template <class F, class... A>
[[gnu::noinline, gnu::flatten, CUBIST_AVX2]] void call_avx2(F f, A... a)
{
  f(a...);
}
template <class F, class... A>
[[gnu::noinline, gnu::flatten, CUBIST_AVX512]] void call_avx512(F f, A... a)
{
  f(a...);
}
#endif

#if defined __clang__
#pragma clang diagnostic pop
#endif

/// Calls f(a…), compiled for a target that this processor supports.
template <class F, class... A>
void call_on([[maybe_unused]] Target target, F f, const A&... a)
{
#ifdef CUBIST_X86_TARGETS
  if (target == Target::avx512) return call_avx512(f, a...);
  if (target == Target::avx2) return call_avx2(f, a...);
#endif
  call_as_compiled(f, a...);
}

}  // namespace cubist::CUBIST_ABI::detail
