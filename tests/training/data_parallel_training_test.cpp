// SPDX-License-Identifier: BSD-3-Clause
// Tests that training on digits with a data axis is as on one rank, over 200 steps, or 40 in quick
// tests.

#include "cubist/dataset/row_batches.hpp"
#include "cubist/nn/networks/mlp.hpp"
#include "cubist/nn/optimizers/optimizer.hpp"

#include "checked_step.hpp"
#include "nn.hpp"

namespace cubist::test::data_parallel_training_test
{

namespace
{

const int steps = repeats(200, 40, 20);

/// Trains an MLP with GELU, dropout and AdamW, and returns the losses.
template <class S>
std::vector<double> losses(const Place<S>& place, const RowBatches& digits)
{
  return on_root(place, [&](const auto& mesh) {
    MLP<S, TestBackend, double> mlp{
        mesh, {64, 32, 10}, {.activation = gelu, .dropout = 0.1, .seed = 11}};
    const auto parameters = mlp.parameters();
    AdamW optimizer{parameters, {.learning_rate = 0.003}};
    std::vector<double> curve;
    for (int step = 0; step < steps; ++step)
    {
      const auto [x, labels] =
          digits.batch<double, typename S::Input>(mesh, static_cast<std::uint64_t>(step));
      const auto& y = mlp.forward(x);
      auto dy = zeros_like(y);
      curve.push_back(softmax_cross_entropy(y, labels, dy));
      mlp.backward(dy);
      checked_step(static_cast<std::size_t>(step), static_cast<std::size_t>(steps), optimizer,
                   parameters);
    }
    return curve;
  });
}

}  // namespace

TEST_CASE("digits train with a data axis as on one rank")
{
  const CsvFile file{CUBIST_DIGITS_CSV};
  const RowBatches digits{file, {.batch = 48, .rows = {.scaling = {.mean = 0, .deviation = 16}}}};
  const auto wanted = losses(one_rank, digits);
  CHECK(wanted.back() < wanted.front() / (steps == 200 ? 4 : 1));
  const auto on = [&](const auto& place) {
    if (!fits(place)) return;
    CAPTURE(place.name());
    CHECK(deviation(losses(place, digits), wanted) < 1e-9);
  };
  on(Place<DataParallel<Summa2D>>{8, {2, {.q = 2}}});
  on(Place<DataParallel<Cube3D>>{16, {2, {.q = 2}}});
  on(Place<DataParallel<Megatron1D>>{8, {4, {2}}});
}

}  // namespace cubist::test::data_parallel_training_test
