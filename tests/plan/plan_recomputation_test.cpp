// SPDX-License-Identifier: BSD-3-Clause
#include "step_memory.hpp"

// Tests plans of networks that recompute activations: the memory of a simulated step, and the cost
// of the added forward passes.

namespace cubist::test::plan_recomputation_test
{

template <SchemeType S, class Layers>
Plan plan_of(const typename S::Axes::Array& e, const Layers& layers, const PlanOptions& options)
{
  Machine machine;
  machine.links.front().ranks = S::Axes::ranks(e);
  return plan_on<S>(e, layers, S::Axes::ranks(e), machine, options);
}

const std::vector<std::size_t> equal(17, 256);
const std::vector<std::size_t> alternate{128, 512, 128, 512, 128, 512, 128, 512, 128};
const TransformerStep gpt{
    {.vocabulary = 500, .positions = 64, .width = 128, .layers = 7, .heads = 8},
    {.sequences = 16, .length = 64}};

TEST_CASE("The memory planned for a recomputing MLP is that of its steps within a twentieth")
{
  const auto compare = []<class S>(const S&, const typename S::Axes::Array& e, auto sizes) {
    for (const auto method : {Method::collectives, Method::automatic})
      for (const std::size_t recompute : {1U, 2U, 3U, 4U})
      {
        const PlanOptions options{.method = method, .recompute = recompute};
        CAPTURE(S::name, method == Method::automatic, recompute);
        CHECK(plan_of<S>(e, mlp_layers(1024, sizes), options).memory ==
              Approx(step_memory<S, Simulated>(e, 1024, sizes, options)).epsilon(0.05));
      }
  };
  compare(Summa2D{}, {2, 2}, equal);
  compare(Megatron1D{}, {4}, equal);
  compare(Megatron1D{}, {4}, alternate);
}

TEST_CASE("The memory planned for a recomputing transformer is that of its steps")
{
  for (const auto method : {Method::collectives, Method::automatic})
    for (const std::size_t recompute : {1U, 3U, 4U})
    {
      const PlanOptions options{.method = method, .recompute = recompute};
      CAPTURE(method == Method::automatic, recompute);
      CHECK(plan_of<Summa2D>({2, 2}, gpt, options).memory ==
            Approx(step_memory<Summa2D, Simulated>({2, 2}, gpt, options)).epsilon(0.05));
    }
}

TEST_CASE("16 layers that are recomputed keep less than two fifths of the activations")
{
  for (const auto method : {Method::collectives, Method::automatic})
  {
    const auto activations = [&](std::size_t recompute) {
      const PlanOptions options{.method = method, .recompute = recompute};
      const auto parts = plan_of<Summa2D>({2, 2}, mlp_layers(1024, equal), options).memory_parts;
      return step_memory<Summa2D, Simulated>({2, 2}, 1024, equal, options) - parts.parameters -
             parts.gradients - parts.optimizer;
    };
    const double all = activations(0);
    for (const std::size_t recompute : {2U, 3U, 4U})
    {
      CAPTURE(recompute, all);
      CHECK(activations(recompute) < 0.4 * all);
    }
  }
}

TEST_CASE("A plan has one more forward pass for each layer that is recomputed")
{
  const auto layers = mlp_layers(1024, equal);
  const auto planned = [&](PlanOptions options) {
    return plan_of<Summa2D>({2, 2}, layers, options);
  };
  const PlanOptions collectives{.method = Method::collectives};
  for (auto options : {PlanOptions{}, collectives})
  {
    const Plan kept = planned(options);
    options.recompute = 4;
    const Plan recomputed = planned(options);
    options.training = false;
    const Plan forward = planned(options);
    CHECK(recomputed.flops - kept.flops == Approx(0.75 * forward.flops));
    CHECK(recomputed.words - kept.words == Approx(0.75 * forward.words));
    // 15 of the 16 layers make two passes, for the bias and the activation; the last one makes one.
    const double passes = forward.time.passes;
    CHECK(recomputed.seconds() - kept.seconds() ==
          Approx(0.75 * (forward.seconds() - passes) + 24.0 / 31 * passes));
    CHECK(recomputed.padding == Approx(kept.padding).margin(1e-12));
  }
  PlanOptions options;
  const auto seconds = [&] { return plan_of<Summa2D>({2, 2}, gpt, options).seconds(); };
  const double kept = seconds();
  options.recompute = 2;  // 2, 2, 2, 1 blocks
  const double most = seconds();
  options.recompute = 4;  // 4, 3 blocks
  CHECK(most - kept == Approx(6.0 / 4 * (seconds() - kept)));
  CHECK(most > kept);
}

TEST_CASE("The last segment is not computed again, even where segments divide the blocks")
{
  TransformerStep step = gpt;
  const auto flops = [&](std::size_t blocks, PlanOptions options) {
    step.model.layers = blocks;
    return plan_of<Summa2D>({2, 2}, step, options).flops;
  };
  const double kept = flops(8, {});
  const double forward = (flops(8, {.training = false}) - flops(4, {.training = false})) / 4;
  CHECK(flops(8, {.recompute = 1}) - kept == Approx(7 * forward));
  CHECK(flops(8, {.recompute = 2}) - kept == Approx(6 * forward));
  CHECK(flops(8, {.recompute = 4}) - kept == Approx(4 * forward));
  CHECK(flops(8, {.recompute = 8}) == kept);
}

}  // namespace cubist::test::plan_recomputation_test
