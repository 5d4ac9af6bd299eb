// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/nn/networks/mlp.hpp"
#include "cubist/training/learning_rate.hpp"

#include "nn.hpp"

namespace cubist::test::learning_rate_test
{

TEST_CASE("a learning rate grows in the warm-up, then stays")
{
  const LearningRate rate{{.rate = 0.5, .warm_up = 4}};
  CHECK(rate.at(0) == 0.125);
  CHECK(rate.at(1) == 0.25);
  CHECK(rate.at(3) == 0.5);
  CHECK(rate.at(4) == 0.5);
  CHECK(rate.at(1'000'000) == 0.5);
  CHECK(LearningRate{{.rate = 0.5}}.at(0) == 0.5);
}

TEST_CASE("a learning rate decays in a line")
{
  const LearningRate rate{
      {.rate = 1, .warm_up = 2, .steps = 10, .decay = Decay::linear, .last = 0.5}};
  CHECK(rate.at(0) == 0.5);
  CHECK(rate.at(2) == 1);
  CHECK(rate.at(6) == 0.75);
  CHECK(rate.at(10) == 0.5);
  CHECK(rate.at(11) == 0.5);
}

// The values are those of PyTorch's CosineAnnealingLR with T_max = 100, eta_min = 0.1, and base 1,
// by its closed form.
TEST_CASE("a learning rate decays along a cosine")
{
  const LearningRate rate{
      {.rate = 1, .warm_up = 5, .steps = 105, .decay = Decay::cosine, .last = 0.1}};
  CHECK(rate.at(5) == 1);
  for (const std::uint64_t step : {1U, 25U, 50U, 99U})
  {
    const double angle = std::numbers::pi * static_cast<double>(step) / 100;
    CHECK(rate.at(5 + step) == Approx(0.1 + 0.9 * (1 + std::cos(angle)) / 2).epsilon(1e-14));
  }
  CHECK(rate.at(105) == 0.1);
  for (std::uint64_t step = 5; step < 105; ++step) CHECK(rate.at(step + 1) < rate.at(step));
}

TEST_CASE("the step of a learning rate is part of the state")
{
  const LearningRateOptions options{.rate = 1, .warm_up = 8};
  LearningRate rate{options};
  for (int i = 0; i < 3; ++i) CHECK(rate.next() == static_cast<double>(i + 1) / 8);
  const bool resumes = on_ranks<TestBackend>(1, [&](typename TestBackend::Communicator& world) {
                         const Mesh<Summa2D, TestBackend> mesh{world, {.q = 1}};
                         MLP<Summa2D, TestBackend, double> mlp{mesh, {3, 2}};
                         const auto state = state_of(mlp, rate);
                         LearningRate other{options};
                         *state_of(mlp, other).numbers.back().value = *state.numbers.back().value;
                         return other.step() == 3 && other.next() == 0.5 ? 1 : 0;
                       })[0] == 1;
  CHECK(resumes);
}

TEST_CASE("learning rates that would not train are refused")
{
  CHECK_THROWS_AS(LearningRate({.rate = -1}), ArgumentError);
  CHECK_THROWS_AS(LearningRate({.rate = std::nan("")}), ArgumentError);
  CHECK_THROWS_AS(LearningRate({.warm_up = 4, .steps = 4, .decay = Decay::linear}), ArgumentError);
}

}  // namespace cubist::test::learning_rate_test
