// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/scheme/summa2d.hpp"
#include "cubist/training/step.hpp"

#include "ranks.hpp"

namespace cubist::test::step_test
{

TEST_CASE("on an engine that does not capture, every call of a step runs its function")
{
  const auto runs = on_ranks<TestBackend>(1, [](auto& world) {
    const Mesh<Summa2D, TestBackend> mesh{world, {}};
    std::size_t count = 0;
    Step step{mesh, [&](std::size_t by) { count += by; }};
    for (int i = 0; i < 3; ++i) step(std::size_t{2});
    return 10 * count + step.captures();
  });
  CHECK(runs[0] == 60);
}

}  // namespace cubist::test::step_test
