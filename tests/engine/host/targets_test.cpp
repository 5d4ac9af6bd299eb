// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/engine/host/targets.hpp"

#include "catch.hpp"

namespace cubist::test::engine_host_targets_test
{

using detail::Target;

TEST_CASE("the best target is one that the processor supports and the environment permits")
{
  const Target most = detail::permitted_target(std::getenv("CUBIST_INSTRUCTIONS"));
  CHECK(detail::supports(Target::as_compiled));
  CHECK(detail::supports(detail::best_target()));
  CHECK(detail::best_target() <= most);
  for (const Target t : {Target::as_compiled, Target::avx2, Target::avx512})
    if (detail::supports(t) && t <= most) CHECK(detail::best_target() >= t);
}

TEST_CASE("CUBIST_INSTRUCTIONS names the best target that is permitted")
{
  CHECK(detail::permitted_target(nullptr) == Target::avx512);
  CHECK(detail::permitted_target("avx512") == Target::avx512);
  CHECK(detail::permitted_target("avx2") == Target::avx2);
  CHECK(detail::permitted_target("compiled") == Target::as_compiled);
  for (const char* other : {"", "AVX2", "avx", "avx2 "})
    CHECK_THROWS_WITH(detail::permitted_target(other),
                      "got CUBIST_INSTRUCTIONS=" + std::string{other} +
                          ", which names no instruction set; set it to avx512, avx2 or compiled, "
                          "or unset it");
}

}  // namespace cubist::test::engine_host_targets_test
