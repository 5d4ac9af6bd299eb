// SPDX-License-Identifier: BSD-3-Clause
// Tests that training on digits in stages is as on one rank, over 200 steps, or 40 in quick tests,
// and that a run continues with another cut.

#include "cubist/nn/pipeline/pipelined_mlp.hpp"
#include "cubist/training/sharded_optimizer.hpp"
#include "cubist/training/trainer.hpp"

#include "digits.hpp"
#include "folder.hpp"

namespace cubist::test::pipeline_training_test
{

template <class S>
using Network = MLP<S, TestBackend, double>;

template <class S>
Network<S> make_network(const Mesh<S, TestBackend>& mesh, std::size_t pieces = 1)
{
  return {mesh,
          {64, 32, 24, 16, 10},
          {.activation = gelu, .seed = 11, .pipeline = {.micro_batches = 4, .pieces = pieces}}};
}

template <class S>
std::vector<double> losses(const Place<S>& run, std::size_t pieces = 1)
{
  return digit_losses(run, [&](const auto& mesh) { return make_network<S>(mesh, pieces); });
}

TEST_CASE("digits train in stages as on one rank")
{
  const auto wanted = losses(one_rank);
  CHECK(wanted.back() < wanted.front() / (digit_steps == 200 ? 4 : 1));
  const auto on = [&](const auto& run, std::size_t pieces = 1) {
    if (!fits(run)) return;
    CAPTURE(run.name(), pieces);
    CHECK(deviation(losses(run, pieces), wanted) < 1e-9);
  };
  on(Place<Pipeline<Summa2D>>{8, {2, {.q = 2}}});
  on(Place<DataParallel<Pipeline<Grid3D>>>{8, {2, {2, {1, 2, 1}}}});
  on(Place<DataParallel<Pipeline<Grid3D>>>{8, {2, {2, {1, 2, 1}}}}, 2);
  on(Place<Pipeline<Megatron1D>>{8, {4, {2}}});
}

/// The losses of some steps in half precision, and how many of these overflowed.
struct ScaledRun
{
  std::vector<double> losses;
  std::uint64_t skipped;
};

static ScaledRun scaled(const Place<Pipeline<Summa2D>>& run)
{
  using P = Pipeline<Summa2D>;
  return on_root(run, [&](const auto& mesh) {
    MLP<P, TestBackend, half> mlp{
        mesh, {64, 32, 24, 10}, {.activation = gelu, .seed = 11, .pipeline = {.micro_batches = 4}}};
    const auto parameters = mlp.parameters();
    Sgd optimizer{parameters, {.learning_rate = 0.25}};
    LossScale scale{{.initial = 0x1p22}};  // too large: the gradients of the outputs overflow
    ScaledRun found{};
    for (std::uint64_t step = 0; step < 24; ++step)
    {
      const auto [x, labels] = digits().batch<half, Summa2D::Input>(mesh, step);
      found.losses.push_back(mlp.compute_gradients(x, labels, scale.value()));
      if (const auto factor = scale.update(gradient_norm(parameters)))
        checked_step(optimizer, parameters, *factor);
    }
    found.skipped = scale.skipped();
    return found;
  });
}

TEST_CASE("stages of half skip a step that overflows on one of them, and train as one rank")
{
  if (!fits(8)) return;
  const ScaledRun one = scaled({1, {1, {.q = 1}}});
  const ScaledRun stages = scaled({8, {2, {.q = 2}}});
  CHECK(one.skipped > 0);
  CHECK(one.skipped < 12);
  CHECK(stages.skipped == one.skipped);
  CHECK(deviation(stages.losses, one.losses) < 0.02);
  CHECK(stages.losses.back() < stages.losses.front());
}

/// The losses of a run from the folder's newest checkpoint up to a step.
template <class S>
std::vector<double> continued(const Place<S>& run, const std::filesystem::path& folder,
                              std::uint64_t last)
{
  return on_root(run, [&](const auto& mesh) {
    auto mlp = make_network<S>(mesh);
    using Optimizer = AdamW<double, typename Network<S>::Mesh>;
    Sharded<Optimizer> optimizer{mlp.parameters(), {.learning_rate = 0.003}};
    Trainer trainer{
        mlp, optimizer, {.steps = last, .clip = 0.5, .monitor = {1, 1}, .checkpoints = folder}};
    return trainer
        .run([&](const MicroBatch& batch) { return digit_gradients(mlp, mesh, batch.index); })
        .losses;
  });
}

TEST_CASE("a run of the trainer continues in another cut of data, stages and tensor")
{
  if (!fits(8)) return;
  const Folder folder;
  const auto whole = continued(one_rank, folder / "whole", 9);
  const auto check = [&](const auto& run, std::uint64_t from, std::uint64_t to) {
    CAPTURE(run.name());
    const auto at = [&](std::uint64_t i) { return whole.begin() + static_cast<std::ptrdiff_t>(i); };
    CHECK(deviation(continued(run, folder / "cut", to), {at(from), at(to)}) < 1e-11);
  };
  check(Place<Pipeline<Summa2D>>{8, {2, {.q = 2}}}, 0, 3);
  check(Place<DataParallel<Pipeline<Grid3D>>>{8, {2, {2, {1, 2, 1}}}}, 3, 5);
  check(Place<Pipeline<Megatron1D>>{8, {4, {2}}}, 5, 7);
  check(Place<Summa2D>{1, {.q = 1}}, 7, 9);
}

}  // namespace cubist::test::pipeline_training_test
