// SPDX-License-Identifier: BSD-3-Clause
#include "sanitized.hpp"

// One rank runs at a time, so sanitizers find no more here than in simulated_test.cpp.
#if !CUBIST_SANITIZED

#include "cubist/io/checkpoints.hpp"
#include "cubist/nn/networks/mlp.hpp"
#include "cubist/training/clip_gradients.hpp"
#include "cubist/training/sharded_optimizer.hpp"

#include "nn.hpp"
#include "simulated_needs.hpp"

// Tests that data axes, sharded optimizers and micro-batches send and need as much in simulated
// time as on threads.

namespace cubist::test::backend_simulated_training_test
{

struct Step
{
  bool sharded = false;
  std::size_t micro_batches = 1;
};

constexpr std::size_t rows = 90;
constexpr std::size_t class_count = 50;

/// Takes two steps of a classifier with uneven sizes.
template <class S, class B>
void train(const Mesh<S, B>& mesh, Step step)
{
  MLP<S, B, float> mlp{mesh, {70, 130, class_count}, {.activation = gelu, .dropout = 0.1}};
  const auto parameters = mlp.parameters();
  const DistMatrix<float, typename S::Input, AxisMesh<typename S::Axes, B>> x{mesh, {rows, 70}};
  const auto labels = classes(rows, class_count);
  const auto backward = [&] {
    for (std::size_t i = 0; i < step.micro_batches; ++i)
    {
      const auto& y = mlp.forward(x);
      auto dy = y;
      softmax_cross_entropy(y, labels, dy);
      mlp.backward(dy);
    }
  };
  using Whole = AdamW<float, typename MLP<S, B, float>::Mesh>;
  const auto take_two_steps = [&](auto& optimizer, const auto& owned, const auto&... all) {
    for (int i = 0; i < 2; ++i)
    {
      backward();
      optimizer.step(all..., clip_factor(gradient_norm(owned), 1));
    }
  };
  if (step.sharded)
  {
    Sharded<Whole> optimizer{parameters, {}, step.micro_batches};
    return take_two_steps(optimizer, optimizer.parameters());
  }
  const GradientAccumulation accumulation{parameters, step.micro_batches};
  Whole optimizer{parameters};
  take_two_steps(optimizer, parameters, parameters);
}

template <class B, class S>
std::vector<Needed> needed_on(const Place<S>& place, Step step)
{
  return needed<B>(place.ranks, [&](typename B::Communicator& world) {
    train(Mesh<S, B>{world, place.extents}, step);
  });
}

template <class S>
void check(const Place<S>& place)
{
  for (const Step step : {Step{}, Step{.sharded = true}, Step{.micro_batches = 3},
                          Step{.sharded = true, .micro_batches = 3}})
  {
    CAPTURE(place.name(), step.sharded, step.micro_batches);
    const auto real = needed_on<Counting<CountedThreads>>(place, step);
    needed_on<Counting<Simulated>>(place, step);
    check_simulated(real);
  }
}

TEST_CASE("simulated: a data axis and sharded optimizers send, and need, what they do on threads")
{
  using S = DataParallel<Summa2D>;
  check<S>({8, {.data = 2, .scheme = {.q = 2}}});
  check<S>({6, {.data = 3, .scheme = {.rows = 2, .cols = 1}}});
  check<S>({4, {.data = 4, .scheme = {.q = 1}}});
}

TEST_CASE("simulated: a launch needs the memory of the one before it")
{
  const Place<DataParallel<Summa2D>> place{4, {.data = 2, .scheme = {.rows = 1, .cols = 2}}};
  const auto peaks = [&] {
    needed_on<Counting<Simulated>>(place, {});
    std::vector<std::size_t> each;
    for (const auto& r : Simulated::report().ranks) each.push_back(r.peak_memory);
    return each;
  };
  const auto first = peaks();
  CHECK(peaks() == first);
  for (const auto& r : Simulated::report().ranks) CHECK(r.memory == 0);
}

TEST_CASE(
    "a save in the background takes the time of a copy, and then that of the disk beside steps")
{
  struct Times
  {
    double stall, wait, wait_after_steps;
    bool skipped;
  };
  const Machine usual = Simulated::machine;
  Simulated::machine.write_bandwidth = 1e6;
  const auto all = on_mesh<Simulated>(two_by_two, [](const auto& mesh) {
    MLP<Summa2D, Simulated, float> mlp{mesh, {500, 1000}};
    Checkpoints checkpoints{mesh, "/nowhere", {.in_flight = SaveInFlight::skip}};
    const auto state = state_of(mlp);
    const auto seconds = [](auto f) {
      const double begin = Simulated::now();
      f();
      return Simulated::now() - begin;
    };
    Times t{};
    t.stall = seconds([&] { checkpoints.save_in_background(1, state); });
    t.skipped = !checkpoints.save_in_background(2, state);
    t.wait = seconds([&] { checkpoints.wait(); });
    checkpoints.save_in_background(3, state);
    mesh.engine().wait_until(Simulated::now() + 5);  // steps
    t.wait_after_steps = seconds([&] { checkpoints.wait(); });
    return t;
  });
  Simulated::machine = usual;
  const double copy = 2 * 4.0 * 500 * 1000 / 4 / usual.memory_bandwidth;
  const double write = 4.0 * (500 * 1000 + 1000) / 1e6;  // seconds of all ranks
  for (const Times& t : all)
  {
    CHECK(t.stall >= copy);
    CHECK(t.stall < 1.1 * copy);
    CHECK(t.skipped);
    CHECK(t.wait == Approx(write).epsilon(1e-3));
    CHECK(t.wait_after_steps < 1e-3 * write);
  }
}

}  // namespace cubist::test::backend_simulated_training_test

#endif
