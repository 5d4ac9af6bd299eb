// SPDX-License-Identifier: BSD-3-Clause
// Tests that training on digits with a data axis is as on one rank, over 200 steps, or 40 in quick
// tests.

#include "digits.hpp"

namespace cubist::test::data_parallel_training_test
{

/// Trains an MLP with GELU, dropout and AdamW, and returns the losses.
template <class S>
std::vector<double> losses(const Place<S>& place)
{
  return digit_losses(place, [](const auto& mesh) {
    return MLP<S, TestBackend, double>{
        mesh, {64, 32, 10}, {.activation = gelu, .dropout = 0.1, .seed = 11}};
  });
}

TEST_CASE("digits train with a data axis as on one rank")
{
  const auto wanted = losses(one_rank);
  CHECK(wanted.back() < wanted.front() / (digit_steps == 200 ? 4 : 1));
  const auto on = [&](const auto& place) {
    if (!fits(place)) return;
    CAPTURE(place.name());
    CHECK(deviation(losses(place), wanted) < 1e-9);
  };
  on(Place<DataParallel<Summa2D>>{8, {2, {.q = 2}}});
  on(Place<DataParallel<Cube3D>>{16, {2, {.q = 2}}});
  on(Place<DataParallel<Megatron1D>>{8, {4, {2}}});
}

}  // namespace cubist::test::data_parallel_training_test
