// SPDX-License-Identifier: BSD-3-Clause
// Tests that parameters have the same bits whether gradients are sent in buckets or one by one,
// sharded or not.

#include "cubist/nn/networks/mlp.hpp"
#include "cubist/training/sharded_optimizer.hpp"

#include "checked_step.hpp"
#include "nn.hpp"

namespace cubist::test::bucketed_training_test
{

TEST_CASE("networks train with the same bits in buckets of any size, sharded and accumulated")
{
  const auto values = [](const auto& place, std::size_t bytes, bool sharded) {
    return on_root(place, [&](const auto& mesh) {
      using Network = MLP<typename std::decay_t<decltype(mesh)>::Scheme, TestBackend, double>;
      using M = typename Network::Mesh;
      Network mlp{mesh, {7, 11, 5}, {.seed = 3, .method = Method::collectives}};
      mlp.gradients().buckets().set({.bytes = bytes});
      const auto parameters = mlp.parameters();
      std::optional<GradientAccumulation<double, M>> accumulation;
      std::optional<Sharded<AdamW<double, M>>> parts;
      std::optional<AdamW<double, M>> whole;
      if (sharded)
        parts.emplace(parameters, AdamOptions{}, std::size_t{2});
      else
        accumulation.emplace(parameters, std::size_t{2}), whole.emplace(parameters);
      for (std::uint64_t i = 0; i < 6; ++i)
      {
        using X = typename std::decay_t<decltype(mesh)>::Scheme::Input;
        mlp.backward(mlp.forward(scatter<X>(mesh, uniform<double>(12, 7, i))));
        if (i % 2 == 0) continue;
        sharded ? checked_sharded_step(*parts, parameters) : checked_step(*whole, parameters);
      }
      std::vector<double> all;
      for (const auto& p : parameters)
        for (const double v : gather(p.value)) all.push_back(v);
      return all;
    });
  };
  const auto check = [&](const auto& place) {
    if (!fits(place)) return;
    INFO(place.name());
    const auto expected = values(place, 0, false);
    for (const std::size_t bytes : {0U, 300U, 65'536U})
      for (const bool sharded : {false, true}) CHECK(values(place, bytes, sharded) == expected);
  };
  check(Place<DataParallel<Summa2D>>{3, {.data = 3, .scheme = {.q = 1}}});
  check(Place<DataParallel<Summa2D>>{8, {.data = 2, .scheme = {.q = 2}}});
  check(two_two_two);
}

TEST_CASE("of several backward passes before a step, the last one's gradients count")
{
  const auto values = [](const auto& place, std::size_t bytes, bool sharded, bool repeated) {
    return on_root(place, [&](const auto& mesh) {
      using S = typename std::decay_t<decltype(mesh)>::Scheme;
      using Network = MLP<S, TestBackend, double>;
      using M = typename Network::Mesh;
      Network mlp{mesh, {7, 11, 5}, {.seed = 3, .method = Method::collectives}};
      mlp.gradients().buckets().set({.bytes = bytes});
      const auto parameters = mlp.parameters();
      std::optional<Sharded<AdamW<double, M>>> parts;
      std::optional<AdamW<double, M>> whole;
      if (sharded)
        parts.emplace(parameters);
      else
        whole.emplace(parameters);
      for (std::uint64_t i = 1; i <= 6; ++i)
      {
        const bool counts = i % 3 == 0;
        if (counts || repeated)
          mlp.backward(mlp.forward(scatter<typename S::Input>(mesh, uniform<double>(12, 7, i))));
        if (counts) sharded ? parts->step() : whole->step(parameters);
      }
      std::vector<double> all;
      for (const auto& p : parameters)
        for (const double v : gather(p.value)) all.push_back(v);
      return all;
    });
  };
  const auto check = [&](const auto& place) {
    if (!fits(place)) return;
    INFO(place.name());
    const auto expected = values(place, 0, false, false);
    for (const std::size_t bytes : {0U, 300U, 65'536U})
      for (const bool sharded : {false, true})
        CHECK(values(place, bytes, sharded, true) == expected);
  };
  check(Place<DataParallel<Summa2D>>{
      3, {.data = 3, .scheme = {.q = 1}}});  // which does not divide the rows
  check(two_two_two);
}

}  // namespace cubist::test::bucketed_training_test
