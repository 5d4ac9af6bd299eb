// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/engine/host/engine.hpp"
#include "cubist/nn/losses/loss_value.hpp"

#include "catch.hpp"

namespace cubist::test::loss_value_test
{

TEST_CASE("a loss converts to double, and prints as one")
{
  STATIC_REQUIRE(std::is_convertible_v<LossValue, double>);
  STATIC_REQUIRE(!std::is_convertible_v<double, LossValue>);
  CHECK(double{LossValue{}} == 0);
  const LossValue loss{0.5};
  CHECK(loss + 1 == 1.5);
  CHECK((true ? loss : 2.0) == 0.5);
  std::ostringstream out;
  out << loss;
  CHECK(out.str() == "0.5");
}

TEST_CASE("a loss on a device is read in each conversion")
{
  double memory = 1;
  const LossValue loss{[&] { return memory; }};
  const LossValue copy = loss;
  CHECK(loss == 1);
  memory = 2;  // as a replayed step would store it
  CHECK(loss == 2);
  CHECK(copy == 2);
}

TEST_CASE("on the host the sums of a loss are read at once")
{
  const double x[] = {1, 2, 3};
  cubist::detail::LossSums<HostEngine, 2> sums{HostEngine{}};
  sums.fold(
      0, [](std::size_t, std::size_t j, double v) { return v * static_cast<double>(j); },
      MatrixView<const double>{x, {1, 3}});
  sums.set(1, 10);
  CHECK(sums.value([](const auto& all) { return all[0] + all[1]; }) == 18);
}

}  // namespace cubist::test::loss_value_test
