// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/nn/networks/mlp.hpp"
#include "cubist/nn/optimizers/optimizer.hpp"
#include "cubist/training/clip_gradients.hpp"
#include "cubist/training/loss_scale.hpp"

#include "checked_step.hpp"
#include "nn.hpp"

namespace cubist::test::loss_scale_test
{

constexpr double infinity = std::numeric_limits<double>::infinity();

TEST_CASE("a loss scale backs off from overflows and grows without them")
{
  LossScale scale{{.initial = 8, .growth_interval = 3}};
  CHECK(scale.update(1) == 1.0 / 8);
  CHECK_FALSE(scale.update(infinity));
  CHECK(scale.value() == 4);
  CHECK_FALSE(scale.update(std::nan("")));
  CHECK(scale.value() == 2);
  CHECK(scale.skipped() == 2);
  for (int i = 0; i < 2; ++i) CHECK(scale.update(1) == 0.5);
  CHECK(scale.value() == 2);
  CHECK(scale.update(1) == 0.5);  // the scale of this step's gradients
  CHECK(scale.value() == 4);
}

TEST_CASE("a loss scale stays in the range of float")
{
  LossScale scale{{.initial = 1, .growth_interval = 1}};
  for (int i = 0; i < 300; ++i) CHECK(scale.update(1));
  CHECK(scale.value() == 0x1p100);
  for (int i = 0; i < 300; ++i) CHECK_FALSE(scale.update(infinity));
  CHECK(scale.value() == 0x1p-100);
}

/// Values after some steps with a gradient of `slope` at every output; without a scale, half could
/// not hold the sums.
template <class T>
std::vector<double> train(float slope, bool scaled)
{
  if (!fits(two_by_two)) return {};
  return on_root(two_by_two, [&](const auto& mesh) {
    MLP<Summa2D, TestBackend, T> mlp{mesh, {4, 3}, {.seed = 1}};
    const auto parameters = mlp.parameters();
    Sgd optimizer{parameters, {.learning_rate = 1024}};
    LossScale scale;
    for (int step = 0; step < 2; ++step)
    {
      const auto& y = mlp.forward(scatter<Summa2D::Input>(mesh, uniform<T>(8, 4, 1)));
      auto dy = zeros_like(y);
      mesh.engine().fill(dy.view().valid(), static_cast<T>(slope));
      if (scaled) scale_gradient(dy, scale.value());
      mlp.backward(dy);
      if (!scaled)
        checked_step(optimizer, parameters);
      else if (const auto factor = scale.update(gradient_norm(parameters)))
        checked_step(optimizer, parameters, *factor);
    }
    std::vector<double> found{static_cast<double>(scale.skipped())};
    for (const auto& p : parameters)
      for (const auto w : gather(p.value)) found.push_back(static_cast<double>(w));
    return found;
  });
}

TEST_CASE("scaled gradients of half train where others vanish")
{
  const float slope = 0x1p-23F;  // a quarter of the smallest number of half is 0
  const auto expected = train<float>(slope, false);
  const auto scaled = train<half>(slope, true);
  const auto others = train<half>(slope / 8, false);
  const auto start = train<half>(0, false);
  REQUIRE(scaled.size() == expected.size());
  CHECK(others == start);
  double moved = 0;
  for (std::size_t i = 1; i < expected.size(); ++i)
  {
    CHECK(scaled[i] == Approx(expected[i]).epsilon(2e-3).margin(1e-3));
    moved = std::max(moved, std::abs(scaled[i] - start[i]));
  }
  if (!expected.empty()) CHECK(moved > 1e-4);
}

TEST_CASE("a step that overflows changes no weights, and is counted")
{
  const auto start = train<half>(0, false);
  const auto found = train<half>(2, true);  // 2 * 65536 is beyond half
  if (found.empty()) return;
  CHECK(found[0] == 2);
  CHECK(std::vector(found.begin() + 1, found.end()) == std::vector(start.begin() + 1, start.end()));
}

TEST_CASE("loss scales that would not adapt are refused")
{
  CHECK_THROWS_AS(LossScale({.initial = 0}), ArgumentError);
  CHECK_THROWS_AS(LossScale({.backoff = 1}), ArgumentError);
  CHECK_THROWS_AS(LossScale({.growth = 0.5}), ArgumentError);
  CHECK_THROWS_AS(LossScale({.growth_interval = 0}), ArgumentError);
}

}  // namespace cubist::test::loss_scale_test
