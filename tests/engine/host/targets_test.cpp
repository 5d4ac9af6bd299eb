// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/engine/host/targets.hpp"

#include "catch.hpp"

namespace engine_host_targets_test
{

using namespace cubist;
using detail::Target;

TEST_CASE("the best target is one that the processor supports")
{
  CHECK(detail::supports(Target::as_compiled));
  CHECK(detail::supports(detail::best_target()));
  for (const Target t : {Target::as_compiled, Target::avx2, Target::avx512})
    if (detail::supports(t)) CHECK(detail::best_target() >= t);
}

}  // namespace engine_host_targets_test
