// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/engine/host/blas_kernels.hpp"

#include "catch.hpp"

namespace cubist::test::engine_host_blas_kernels_test
{

constexpr Processor plain{};
constexpr Processor avx2{.avx2 = true};
constexpr Processor avx512{.avx2 = true, .avx512 = true};

static bool has(const std::string& text, const char* part) { return text.find(part) != text.npos; }

TEST_CASE("kernels older than the processor cause a warning that names better ones")
{
  for (const char* kernels : {"Prescott", "Core2", "Nehalem", "Sandybridge", "Barcelona"})
  {
    CHECK(has(blas_warning(kernels, avx512), "OPENBLAS_CORETYPE=SkylakeX"));
    CHECK(has(blas_warning(kernels, avx512), (std::string{"for "} + kernels).c_str()));
    CHECK(has(blas_warning(kernels, avx2), "OPENBLAS_CORETYPE=Haswell"));
  }
}

TEST_CASE("the warning is one line of three parts, with how to hide it")
{
  const auto line = blas_warning("Prescott", avx512);
  CHECK_FALSE(has(line, "\n"));
  CHECK(has(line, "for Prescott on a processor that has AVX-512, so products"));
  CHECK(has(line, "; start the program with"));
  CHECK(has(line, "CUBIST_BLAS_WARNING=off"));
}

TEST_CASE("kernels for the processor, and unknown ones, cause no warning")
{
  for (const char* kernels : {"Haswell", "Zen", "SkylakeX", "Cooperlake", "unknown", ""})
    for (const auto& processor : {plain, avx2, avx512})
      CHECK(blas_warning(kernels, processor).empty());
  for (const char* kernels : {"Prescott", "Nehalem", "Sandybridge"})
    CHECK(blas_warning(kernels, plain).empty());
}

TEST_CASE("a process prints its warning once")
{
  static_cast<void>(detail::take_blas_warning());
  CHECK(detail::take_blas_warning().empty());
}

TEST_CASE("a processor with AVX-512 has AVX2")
{
  const auto current = Processor::current();
  CHECK((current.avx2 || !current.avx512));
}

}  // namespace cubist::test::engine_host_blas_kernels_test
