// SPDX-License-Identifier: BSD-3-Clause
// An MLP in stages trains as on one rank.
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cubist/nn/networks/pipelined_mlp.hpp"
#include "cubist/nn/optimizers/optimizer.hpp"
#include "cubist/scheme/data_parallel.hpp"
#include "cubist/training/clip_gradients.hpp"
#include "cubist/training/gradient_accumulation.hpp"

#include "catch.hpp"
#include "checked_step.hpp"
#include "nn.hpp"

namespace cubist::test::pipelined_mlp_test
{

namespace
{

/// A scheme in stages, and a mesh to run it on.
template <class S>
struct Stages
{
  int ranks;
  typename Pipeline<S>::Extents extents;

  [[nodiscard]] std::string name() const
  {
    return std::string{Pipeline<S>::name} + " on " +
           Pipeline<S>::Axes::to_string(Pipeline<S>::extents(extents, ranks));
  }
};

/// What body(mesh) returns on rank 0.
template <class S, class F>
auto on_root_of(const Stages<S>& place, F body)
{
  return on_ranks<TestBackend>(place.ranks, [&](typename TestBackend::Communicator& world) {
    return body(Mesh<Pipeline<S>, TestBackend>{world, place.extents});
  })[0];
}

const std::vector<std::size_t> sizes{7, 11, 6, 13, 9, 5};
constexpr std::size_t samples = 14;
constexpr int steps = 8;

MlpOptions options()
{
  return {.activation = gelu, .output = cubist::tanh, .dropout = 0.1, .seed = 5};
}

std::vector<int> labels()
{
  auto all = classes(samples, sizes.back());
  all[3] = -100;
  return all;
}

/// The losses, the norms of gradients, and the parameters behind training on one rank: batches of
/// consecutive rows, weighted by their labels.
struct Run
{
  std::vector<double> curve, norms;
  std::vector<Global<double>> values;
};

/// The sizes of micro-batches: as equal as can be, the last one smaller.
std::vector<std::pair<std::size_t, std::size_t>> ranges(std::size_t parts)
{
  const std::size_t size = (samples + parts - 1) / parts;
  std::vector<std::pair<std::size_t, std::size_t>> all;
  for (std::size_t i = 0; i < samples; i += size) all.emplace_back(i, std::min(size, samples - i));
  return all;
}

Run trained_on_one_rank(std::size_t micro_batches)
{
  return on_root(one_rank, [&](const auto& mesh) {
    using S = Summa2D;
    MLP<S, TestBackend, double> mlp{mesh, sizes, options()};
    const auto parameters = mlp.parameters();
    AdamW optimizer{parameters, {.learning_rate = 0.01}};
    const auto x = uniform<double>(samples, sizes.front(), 1, 2);
    const auto all = labels();
    const auto parts = ranges(micro_batches);
    GradientAccumulation accumulation{parameters, parts.size()};
    Run run;
    for (int step = 0; step < steps; ++step)
    {
      double loss = 0;
      for (const auto& [first, rows] : parts)
      {
        const auto mine = generate<double>(rows, x.shape(1),
                                           [&, f = first](auto i, auto j) { return x(f + i, j); });
        const std::span<const int> of{all.data() + first, rows};
        const auto& y = mlp.forward(scatter<S::Input>(mesh, mine));
        auto dy = zeros_like(y);
        const double share = static_cast<double>(detail::count_labels(of)) / (samples - 1);
        loss += share * softmax_cross_entropy(y, of, dy);
        scale_gradient(dy, share * static_cast<double>(parts.size()));
        mlp.backward(dy);
      }
      run.curve.push_back(loss);
      run.norms.push_back(clip_gradients(parameters, 0.5));
      checked_step(optimizer, parameters);
    }
    for (const auto& p : parameters) run.values.push_back(gather(p.value));
    return run;
  });
}

template <class S>
Run trained(const Stages<S>& place, const PipelineOptions& pipeline, std::size_t recompute = 0)
{
  return on_root_of(place, [&](const auto& mesh) {
    auto o = options();
    o.pipeline = pipeline;
    o.recompute = recompute;
    MLP<Pipeline<S>, TestBackend, double> mlp{mesh, sizes, o};
    const auto parameters = mlp.parameters();
    AdamW optimizer{parameters, {.learning_rate = 0.01}};
    const auto x = scatter<typename S::Input>(mesh, uniform<double>(samples, sizes.front(), 1, 2));
    const auto all = labels();
    Run run;
    for (int step = 0; step < steps; ++step)
    {
      run.curve.push_back(mlp.compute_gradients(x, all));
      run.norms.push_back(clip_gradients(parameters, 0.5));
      checked_step(optimizer, parameters);
    }
    for (const auto& p : parameters) run.values.push_back(gather(p.value));
    return run;
  });
}

void check_equal(const Run& run, const Run& wanted)
{
  CHECK(deviation(run.curve, wanted.curve) < 1e-12);
  CHECK(deviation(run.norms, wanted.norms) < 1e-12);
  REQUIRE(run.values.size() == wanted.values.size());
  for (std::size_t i = 0; i < run.values.size(); ++i)
    CHECK(difference(run.values[i], wanted.values[i]) < 1e-11);
}

}  // namespace

TEST_CASE("an MLP in stages trains as on one rank")
{
  const Run wanted = trained_on_one_rank(4);
  CHECK(wanted.curve.back() < wanted.curve.front());
  const auto on = [&](const auto& place, const PipelineOptions& pipeline,
                      std::size_t recompute = 0) {
    if (!fits(place.ranks)) return;
    CAPTURE(place.name(), pipeline.micro_batches, pipeline.pieces, recompute);
    check_equal(trained(place, pipeline, recompute), wanted);
  };
  on(Stages<Summa2D>{2, {2, {.q = 1}}}, {.micro_batches = 4});
  on(Stages<Summa2D>{8, {2, {.q = 2}}}, {.micro_batches = 4});
  on(Stages<Summa2D>{8, {4, {.rows = 1, .cols = 2}}}, {.micro_batches = 4});
  on(Stages<Cube3D>{3, {3, {1}}}, {.micro_batches = 4, .layers = {1, 3, 1}});
  on(Stages<Summa2D>{2, {2, {.q = 1}}}, {.micro_batches = 4}, 2);
}

}  // namespace cubist::test::pipelined_mlp_test
