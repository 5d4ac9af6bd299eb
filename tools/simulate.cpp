// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>

#include <cubist/backend/simulated.hpp>
#include <cubist/nn/mlp.hpp>
#include <cubist/scheme/catalogue.hpp>

#include "simulate.hpp"

namespace cubist
{

namespace
{

/// Seconds of a step, which all ranks begin together.
template <class S, class T>
double step_seconds(const Plan& plan, const SimulatedStep& step)
{
  double begin = 0;
  double end = 0;
  launch<Simulated>({.ranks = plan.ranks + plan.idle, .rethrow = true}, [&](auto& world) {
    const Mesh<S, Simulated> mesh{world, plan};
    if (!mesh.active()) return;
    const auto method = plan.method == Method::direct ? Method::automatic : Method::collectives;
    MLP<S, Simulated, T> mlp{
        mesh, step.sizes, {.activation = gelu, .gathered = plan.gathered, .method = method}};
    const DistMatrix<T, typename S::Input, AxisMesh<typename S::Axes, Simulated>> x{
        mesh, {step.tokens, step.sizes.front()}};
    mesh.world().barrier();
    begin = Simulated::now();
    const auto& y = mlp.forward(x);
    if (step.training) mlp.backward(y);
    end = std::max(end, Simulated::now());
  });
  return end - begin;
}

}  // namespace

double simulated_seconds(const Plan& plan, const SimulatedStep& step,
                         const SimulatedMachine& machine)
{
  Simulated::machine = machine;
  return with_scheme(plan.scheme, [&]<class S>() {
    return step.single ? step_seconds<S, float>(plan, step) : step_seconds<S, double>(plan, step);
  });
}

}  // namespace cubist
