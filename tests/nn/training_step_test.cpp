// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/nn/training_step.hpp"

#include "catch.hpp"

namespace cubist::test::training_step_test
{

TEST_CASE("the number of a step is a number unless the step is captured")
{
  const TrainingStep step = 7;
  CHECK(std::uint64_t{step} == 7);
  CHECK(step.in_memory() == nullptr);
  const auto number = std::make_shared<const std::uint64_t>(7);
  const TrainingStep captured{number};
  CHECK(captured.in_memory() == number.get());
  CHECK_THROWS_AS(static_cast<void>(std::uint64_t{captured}), CaptureError);
  CHECK(Philox{cubist::detail::StepRandom{5, 16, 7, nullptr}}.bits(3) == Philox{5, 23}.bits(3));
  CHECK(Philox{cubist::detail::StepRandom{5, 16, 0, number.get()}}.bits(3) ==
        Philox{5, 23}.bits(3));
}

}  // namespace cubist::test::training_step_test
