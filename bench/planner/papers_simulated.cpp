// SPDX-License-Identifier: BSD-3-Clause

#include <algorithm>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include <cubist/backend/simulated.hpp>
#include <cubist/core/error.hpp>
#include <cubist/gradients/gradient_buckets.hpp>
#include <cubist/nn/layer.hpp>
#include <cubist/nn/transformer/transformer_block.hpp>
#include <cubist/plan/meshes.hpp>
#include <cubist/scheme/catalogue.hpp>
#include <cubist/scheme/mesh.hpp>

#include "planner/papers.hpp"

namespace bench
{

namespace
{

using cubist::Simulated;

using PaperSchemes =
    cubist::Schemes<cubist::Megatron1D, cubist::Summa2D, cubist::Summa25D, cubist::Cube3D>;

/// Returns the place of the k-th rank in a mesh, where tile^2 consecutive ranks make up a tile of a
/// plane with `cols` columns.
int place_in_tiles(int k, int tile, int cols)
{
  const int inside = k % (tile * tile);
  const int number = k / (tile * tile);
  const int tiles = cols / tile;
  return (number / tiles * tile + inside / tile) * cols + number % tiles * tile + inside % tile;
}

template <class S>
auto make_block(const cubist::Mesh<S, Simulated>& mesh, const PaperRun& run)
{
  using namespace cubist;
  using Norm = LayerNorm<S, Simulated, float>;
  using Up = Dense<S, Simulated, float>;
  using Down = Dense<typename S::Next, Simulated, float>;
  const std::size_t d = run.width;
  return TransformerBlock<S, Simulated, float, Norm, Up>{
      Norm{mesh, d},
      Attention<S, Simulated, float>{mesh, d, {.heads = run.heads, .rotary_base = 0}},
      Norm{mesh, d}, Up{mesh, d, 4 * d, LinearOptions{}, gelu_tanh},
      Down{mesh, 4 * d, d, LinearOptions{}}};
}

/// The blocks on one rank, with what each keeps from forward for backward.
template <class Block>
struct Blocks
{
  using X = typename Block::Input;

  std::vector<Block> blocks = {};
  std::vector<typename Block::Kept> kept;  // one for each block
  cubist::GradientBuckets<float, typename Block::Mesh> gradients;

  /// Runs a step; calls `middle` between forward and backward.
  template <class Middle>
  void run(const X& input, const X& dy, const PaperRun& run, Middle middle)
  {
    const cubist::Pass pass{.sequence = run.length};
    std::vector<const X*> inputs{&input};
    for (std::size_t i = 0; i < blocks.size(); ++i)
      inputs.push_back(&blocks[i].forward(*inputs.back(), pass, kept[i]));
    middle();
    gradients.begin();
    const X* d = &dy;
    for (std::size_t i = blocks.size(); i-- > 0;)
    {
      if (run.recompute) blocks[i].forward(*inputs[i], pass, kept[i]);
      d = blocks[i].backward(*inputs[i], *d, {pass, gradients}, kept[i], true);
    }
    gradients.finish();
  }
};

template <class S>
PaperTimes simulate_on(const PaperRun& run)
{
  using Block = decltype(make_block(std::declval<cubist::Mesh<S, Simulated>>(), run));
  using X = typename Block::Input;
  const auto extents = cubist::extents_from_list<S>(run.mesh);
  const int ranks = S::Axes::ranks(extents);
  constexpr int steps = 2;  // the first step allocates
  PaperTimes times;
  double begin = 0;
  cubist::launch<Simulated>({.ranks = ranks}, [&](auto& world) {
    const int place = place_in_tiles(world.rank(), run.tile, run.tile == 1 ? 1 : extents.back());
    const auto placed = world.split(0, place);
    const cubist::Mesh<S, Simulated> mesh{placed, extents, cubist::IdleRanks::refused};
    const cubist::Shape shape{run.sequences * run.length, run.width};
    const cubist::Quanta quanta{run.length * mesh.quantum(), mesh.quantum()};
    const X x{mesh, shape, quanta};
    const X dy{mesh, shape, quanta};
    Blocks<Block> blocks{.kept = std::vector<typename Block::Kept>(run.layers),
                         .gradients = cubist::GradientBuckets<float, typename Block::Mesh>{mesh}};
    for (std::size_t i = 0; i < run.layers; ++i) blocks.blocks.push_back(make_block<S>(mesh, run));
    for (int step = 0; step < steps; ++step)
    {
      world.barrier();
      begin = Simulated::now();
      times.forward = times.backward = 0;
      double middle = begin;
      blocks.run(x, dy, run, [&] {
        world.barrier();
        middle = Simulated::now();
        times.forward = std::max(times.forward, middle - begin);
      });
      world.barrier();
      times.backward = std::max(times.backward, Simulated::now() - middle);
    }
  });
  const auto& report = Simulated::report();
  for (const auto& rank : report.ranks)
    times.words = std::max(times.words, double(rank.traffic.total().elements) / steps);
  times.products = report.ranks.front().products / steps;
  times.passes = report.ranks.front().passes / steps;
  times.waits = report.ranks.front().waits / steps;
  times.memory = double(report.peak_memory());
  return times;
}

}  // namespace

PaperTimes simulate_paper_run(const PaperRun& run, const cubist::Machine& machine)
{
  Simulated::machine = machine;
  Simulated::options.overlap = run.overlap;
  PaperTimes times;
  cubist::with_scheme<PaperSchemes>(run.scheme, [&]<class S>() { times = simulate_on<S>(run); });
  return times;
}

}  // namespace bench
