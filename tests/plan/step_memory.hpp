// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The peak memory of a rank, in bytes, when it makes a network and takes two training steps, as
// threads or in simulated time. The second step allocates nothing that the first does not.

#include <cstddef>
#include <vector>

#include "cubist/nn/networks/mlp.hpp"
#include "cubist/nn/optimizers/optimizer.hpp"
#include "cubist/nn/transformer/transformer.hpp"
#include "cubist/plan/transformer_plan.hpp"
#include "cubist/training/sharded_optimizer.hpp"

#include "simulated_needs.hpp"

namespace cubist::test
{

/// Calls use(net), with a network that is made of (mesh, what, options), on the ranks of a mesh.
template <class Network, SchemeType S, class B, class What, class Options, class Use>
double memory_of(const typename S::Axes::Array& e, const What& what, const Options& options,
                 const Use& use)
{
  return peak_memory<B>(S::Axes::ranks(e), [&](typename B::Communicator& world) {
    const Mesh<S, B> mesh{world, e, IdleRanks::refused};
    Network net{mesh, what, options};
    use(net);
  });
}

/// Takes two steps of AdamW.
template <class Net, class F>
void take_two_steps(Net& net, bool sharded, const F& compute_gradients)
{
  using Whole = AdamW<float, typename Net::Mesh>;
  const auto take = [&](auto& optimizer, const auto&... parameters) {
    for (int i = 0; i < 2; ++i)
    {
      compute_gradients();
      optimizer.step(parameters...);
    }
  };
  if (sharded)
  {
    Sharded<Whole> optimizer{net.parameters()};
    return take(optimizer);
  }
  Whole optimizer{net.parameters()};
  take(optimizer, net.parameters());
}

/// The memory of steps of an MLP of these sizes.
template <SchemeType S, class B>
double step_memory(const typename S::Axes::Array& e, std::size_t tokens,
                   const std::vector<std::size_t>& sizes, const PlanOptions& options)
{
  using Net = MLP<S, B, float>;
  const MlpOptions same{.activation = gelu,
                        .gathered = options.gathered,
                        .method = options.method,
                        .recompute = options.recompute};
  return memory_of<Net, S, B>(e, sizes, same, [&](Net& mlp) {
    const DistMatrix<float, typename S::Input, typename Net::Mesh> x{
        mlp.parameters().front().value.mesh, {tokens, sizes.front()}};
    take_two_steps(mlp, options.sharded, [&] { mlp.backward(zeros_like(mlp.forward(x))); });
  });
}

/// The memory of steps of a transformer.
template <SchemeType S, class B>
double step_memory(const typename S::Axes::Array& e, const TransformerStep& step,
                   const PlanOptions& options)
{
  using Net = Transformer<S, B, float>;
  const TransformerOptions same{
      .gathered = options.gathered, .method = options.method, .recompute = options.recompute};
  const std::vector<int> ids(step.batch.tokens());
  return memory_of<Net, S, B>(e, step.model, same, [&](Net& net) {
    take_two_steps(net, options.sharded,
                   [&] { (void)net.compute_gradients(ids, step.batch.length); });
  });
}

}  // namespace cubist::test
