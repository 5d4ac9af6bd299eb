// SPDX-License-Identifier: BSD-3-Clause
#include "sanitized.hpp"

// One rank runs at a time, so sanitizers find no more here than in simulated_test.cpp.
#if !CUBIST_SANITIZED

#include "cubist/nn/networks/mlp.hpp"
#include "cubist/nn/optimizers/optimizer.hpp"
#include "cubist/plan/meshes.hpp"

#include "simulated_needs.hpp"

// Tests that a training step sends and needs as much in simulated time as on threads.

namespace cubist::test::backend_simulated_schemes_test
{

/// Takes two training steps of a network with uneven sizes.
template <class S, class B>
void train(const Mesh<S, B>& mesh)
{
  MLP<S, B, float> mlp{mesh, {70, 130, 50}, {.activation = gelu}};
  AdamW optimizer{mlp.parameters(), {}};
  const DistMatrix<float, typename S::Input, AxisMesh<typename S::Axes, B>> x{mesh, {90, 70}};
  const auto target = mlp.forward(x);
  for (int step = 0; step < 2; ++step)
  {
    const auto& y = mlp.forward(x);
    auto dy = y;
    mean_squared_error(y, target, dy);
    mlp.backward(dy);
    optimizer.step(mlp.parameters());
  }
}

template <class S, class B>
std::vector<Needed> needed_on(const typename S::Axes::Array& extents)
{
  return needed<B>(S::Axes::ranks(extents), [&](typename B::Communicator& world) {
    train(Mesh<S, B>{world, extents, IdleRanks::refused});
  });
}

TEST_CASE("simulated: each scheme sends the elements, and needs the memory, of a run on threads")
{
  Simulated::machine.links.front().ranks = 27;  // one node, as threads
  for_each_scheme([]<class S>() {
    constexpr int most = std::is_same_v<S, Cube3D> ? 27 : 8;  // three cubes
    for_each_mesh<S>(most, [](const typename S::Axes::Array& extents) {
      const int ranks = S::Axes::ranks(extents);
      if (ranks != 1 && ranks != 4 && ranks != 6 && ranks != 8 && ranks != 27) return;
      CAPTURE(S::name, S::Axes::to_string(extents));
      const auto real = needed_on<S, Counting<CountedThreads>>(extents);
      needed_on<S, Counting<Simulated>>(extents);
      check_simulated(real);
    });
  });
  Simulated::machine = {};
}

// On a mesh of 6 ranks with nodes of 4, some ranks have all their peers on their node, and others
// do not.
TEST_CASE("simulated: each scheme works wherever the nodes end")
{
  for (const int ranks_per_node : {1, 2, 4, 5})
  {
    Simulated::machine.links.front().ranks = ranks_per_node;
    for_each_scheme([]<class S>() {
      for_each_mesh<S>(8, [](const typename S::Axes::Array& extents) {
        CHECK_NOTHROW((needed_on<S, Counting<Simulated>>(extents)));
        CHECK(Simulated::report().seconds() > 0);
      });
    });
  }
  Simulated::machine = {};
}

TEST_CASE("simulated: a scheme whose ranks read each other's blocks needs the memory of threads")
{
  using S = Cube3D;
  for_each_mesh<S>(8, [](const typename S::Axes::Array& extents) {
    const auto real = needed_on<S, CountedThreads>(extents);
    needed_on<S, Simulated>(extents);
    check_simulated_memory(real);
  });
}

}  // namespace cubist::test::backend_simulated_schemes_test

#endif
