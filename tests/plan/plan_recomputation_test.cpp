// SPDX-License-Identifier: BSD-3-Clause
// Tests plans of networks that recompute activations: the memory of a simulated step, and the cost
// of the added forward passes.

#include "cubist/backend/simulated.hpp"
#include "cubist/nn/networks/mlp.hpp"
#include "cubist/nn/optimizers/optimizer.hpp"
#include "cubist/nn/transformer/transformer.hpp"
#include "cubist/plan/transformer_plan.hpp"

#include "catch.hpp"

namespace plan_recomputation_test
{

using namespace cubist;

namespace
{

/// The most bytes that a rank allocates in two steps of compute_gradients(net).
template <class MakeNet, class F>
double peak_memory(int ranks, MakeNet make_net, F compute_gradients)
{
  Simulated::machine = {};
  launch<Simulated>({.ranks = ranks, .rethrow = true}, [&](Simulated::Communicator& world) {
    auto net = make_net(world);
    AdamW optimizer{net.parameters()};
    for (int i = 0; i < 2; ++i)
    {
      compute_gradients(net);
      optimizer.step(net.parameters());
    }
  });
  return static_cast<double>(Simulated::report().peak_memory());
}

template <SchemeType S>
double simulated_memory(const typename S::Axes::Array& e, std::size_t tokens,
                        const std::vector<std::size_t>& sizes, const PlanOptions& options)
{
  using Net = MLP<S, Simulated, float>;
  const auto make = [&](auto& world) {
    const Mesh<S, Simulated> mesh{world, e, IdleRanks::refused};
    return Net{mesh, sizes, {.method = options.method, .recompute = options.recompute}};
  };
  return peak_memory(S::Axes::ranks(e), make, [&](Net& mlp) {
    const auto mesh = mlp.parameters().front().value.mesh;
    const DistMatrix<float, typename S::Input, typename Net::Mesh> x{mesh, {tokens, sizes.front()}};
    mlp.backward(zeros_like(mlp.forward(x)));
  });
}

template <SchemeType S>
double simulated_memory(const typename S::Axes::Array& e, const TransformerStep& step,
                        const PlanOptions& options)
{
  using Net = Transformer<S, Simulated, float>;
  const auto make = [&](auto& world) {
    const Mesh<S, Simulated> mesh{world, e, IdleRanks::refused};
    return Net{mesh, step.model, {.method = options.method, .recompute = options.recompute}};
  };
  const std::vector<int> ids(step.batch.tokens());
  return peak_memory(S::Axes::ranks(e), make,
                     [&](Net& net) { (void)net.compute_gradients(ids, step.batch.length); });
}

template <SchemeType S>
Plan plan_of(const typename S::Axes::Array& e, const std::vector<ProductSize>& layers,
             const PlanOptions& options)
{
  Machine machine;
  machine.links.front().ranks = S::Axes::ranks(e);
  return plan_on<S>(e, layers, S::Axes::ranks(e), machine, options);
}
template <SchemeType S>
Plan plan_of(const typename S::Axes::Array& e, const TransformerStep& step,
             const PlanOptions& options)
{
  Machine machine;
  machine.links.front().ranks = S::Axes::ranks(e);
  return plan_on<S>(e, step, S::Axes::ranks(e), machine, options);
}

const std::vector<std::size_t> equal(17, 256);
const std::vector<std::size_t> alternate{128, 512, 128, 512, 128, 512, 128, 512, 128};
const TransformerStep gpt{
    {.vocabulary = 500, .positions = 64, .width = 128, .layers = 7, .heads = 8},
    {.sequences = 16, .length = 64}};

}  // namespace

TEST_CASE("The memory planned for a recomputing MLP is that of its steps within a twentieth")
{
  const auto compare = []<class S>(const S&, const typename S::Axes::Array& e, auto sizes) {
    for (const auto method : {Method::collectives, Method::automatic})
      for (const std::size_t recompute : {1U, 2U, 3U, 4U})
      {
        const PlanOptions options{.method = method, .recompute = recompute};
        CAPTURE(S::name, method == Method::automatic, recompute);
        CHECK(plan_of<S>(e, mlp_layers(1024, sizes), options).memory ==
              Approx(simulated_memory<S>(e, 1024, sizes, options)).epsilon(0.05));
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
            Approx(simulated_memory<Summa2D>({2, 2}, gpt, options)).epsilon(0.05));
    }
}

TEST_CASE("16 layers that are recomputed keep less than two fifths of the activations")
{
  for (const auto method : {Method::collectives, Method::automatic})
  {
    const auto activations = [&](std::size_t recompute) {
      const PlanOptions options{.method = method, .recompute = recompute};
      const auto parts = plan_of<Summa2D>({2, 2}, mlp_layers(1024, equal), options).memory_parts;
      return simulated_memory<Summa2D>({2, 2}, 1024, equal, options) - parts.parameters -
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

TEST_CASE("The last segment is not computed again, also where segments divide the blocks")
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

}  // namespace plan_recomputation_test
