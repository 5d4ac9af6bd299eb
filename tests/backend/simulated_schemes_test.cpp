// SPDX-License-Identifier: BSD-3-Clause
#include "sanitized.hpp"

// One rank runs at a time, so sanitizers find no more here than in simulated_test.cpp.
#if !CUBIST_SANITIZED

#include "cubist/backend/simulated.hpp"
#include "cubist/nn/networks/mlp.hpp"
#include "cubist/nn/optimizers/optimizer.hpp"
#include "cubist/plan/meshes.hpp"

#include "counted_memory.hpp"
#include "ranks.hpp"

// Tests that a training step sends and needs as much in simulated time as on threads.

namespace backend_simulated_schemes_test
{

using namespace cubist;
using namespace cubist::test;

namespace
{

struct Needed
{
  Traffic traffic;
  std::size_t peak = 0;
};

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
std::vector<Needed> needed(const typename S::Axes::Array& extents)
{
  return on_ranks<B>(S::Axes::ranks(extents), [&](typename B::Communicator& world) {
    counted_bytes = {};
    const Mesh<S, B> mesh{world, extents, IdleRanks::refused};
    train<S, B>(mesh);
    Needed mine;
    if constexpr (requires { world.traffic(); }) mine.traffic = world.traffic();
    mine.peak = counted_bytes.peak;
    return mine;
  });
}

template <class S>
void check(const typename S::Axes::Array& extents, const std::vector<Needed>& real)
{
  for (std::size_t r = 0; r < real.size(); ++r)
  {
    CAPTURE(S::name, S::Axes::to_string(extents), r);
    const auto& simulated = Simulated::report().ranks[r];
    for (std::size_t c = 0; c < call_kind_count; ++c)
    {
      const auto collective = static_cast<CallKind>(c);
      CAPTURE(to_string(collective));
      CHECK(simulated.traffic[collective] == real[r].traffic[collective]);
    }
    CHECK(real[r].peak > 0);
    CHECK(double(simulated.peak_memory) == Approx(double(real[r].peak)).epsilon(0.05));
  }
}

}  // namespace

TEST_CASE("simulated: each scheme sends the elements, and needs the memory, of a run on threads")
{
  Simulated::machine.links.front().ranks = 27;  // one node, as threads
  for_each_scheme([]<class S>() {
    constexpr int most = std::is_same_v<S, Cube3D> ? 27 : 8;  // three cubes
    for_each_mesh<S>(most, [](const typename S::Axes::Array& extents) {
      const int ranks = S::Axes::ranks(extents);
      if (ranks != 1 && ranks != 4 && ranks != 6 && ranks != 8 && ranks != 27) return;
      const auto real = needed<S, Counting<CountedThreads>>(extents);
      needed<S, Counting<Simulated>>(extents);
      check<S>(extents, real);
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
        CHECK_NOTHROW((needed<S, Counting<Simulated>>(extents)));
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
    const auto real = needed<S, CountedThreads>(extents);
    needed<S, Simulated>(extents);
    for (std::size_t r = 0; r < real.size(); ++r)
      CHECK(double(Simulated::report().ranks[r].peak_memory) ==
            Approx(double(real[r].peak)).epsilon(0.05));
  });
}

}  // namespace backend_simulated_schemes_test

#endif
