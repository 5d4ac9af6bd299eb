// SPDX-License-Identifier: BSD-3-Clause
// Networks on the meshes of the field: with an odd number of layers a rank ends up with other rows
// than it began with, and labels follow.
#include <cstddef>
#include <tuple>
#include <vector>

#include "cubist/nn/mlp.hpp"
#include "cubist/scheme/grid2d.hpp"
#include "cubist/scheme/grid3d.hpp"
#include "cubist/scheme/megatron1d.hpp"
#include "cubist/scheme/summa2d.hpp"

#include "catch.hpp"
#include "nn.hpp"
#include "training.hpp"

using namespace cubist;
using namespace cubist::test;

namespace
{

template <class... S>
struct Meshes
{
  std::tuple<std::vector<Place<S>>...> all;
};

const Meshes<Grid2D, Grid3D, Megatron1D, Megatron1DSequence, Summa2DWeight, Summa2DInput> meshes{
    {{{8, {2, 4}}, {6, {3, 2}}},
     {{6, {1, 2, 3}}, {12, {2, 3, 2}}, {8, {4, 2, 1}}},
     {{4, {}}, {3, {}}},
     {{4, {}}, {3, {}}},
     {{6, {.rows = 2, .cols = 3}}},
     {{6, {.rows = 3, .cols = 2}}}}};

/// Calls f(place) for each that fits.
template <class F>
void for_each_mesh(F f)
{
  const auto each = [&](const auto& places) {
    for (const auto& place : places)
      if (fits(place)) f(place);
  };
  std::apply([&](const auto&... places) { (each(places), ...); }, meshes.all);
}

void train_on_meshes(const Training& t)
{
  const auto wanted = loss_curve<double>(one_rank, t);
  CHECK(wanted.back() < wanted.front());
  for_each_mesh([&](const auto& place) {
    CAPTURE(place.name());
    CHECK(deviation(loss_curve<double>(place, t), wanted) < 1e-8);
  });
}

}  // namespace

TEST_CASE("one layer trains on every mesh as on one rank") { train_on_meshes(one_layer); }
TEST_CASE("two layers train on every mesh as on one rank") { train_on_meshes(two_layers); }
TEST_CASE("three layers train on every mesh as on one rank") { train_on_meshes(three_layers); }
TEST_CASE("five layers train on every mesh as on one rank") { train_on_meshes(five_layers); }

TEST_CASE("no rows and one row of one feature train on every mesh")
{
  for_each_mesh([](const auto& place) {
    CAPTURE(place.name());
    for (const std::size_t m : {0U, 1U})
      require_clear(on_mesh(place, [m](const auto& mesh) { return trains_on_few(mesh, m); }));
  });
}

TEST_CASE("MindSpore's sample on a mesh of 2 x 4 equals that of one rank, in its shapes")
{
  if (!fits(8)) return;
  // ones(1024, 256) times (256, 512), ReLU, times (512, 256)
  const auto x = generate<double>(1024, 256, [](std::size_t, std::size_t) { return 1.0; });
  const auto first = integers<double>(256, 512, 1);
  const auto second = integers<double>(512, 256, 2);
  const auto run = [&]<class S>(const Mesh<S, TestBackend>& mesh) {
    MLP<S, TestBackend, double> mlp{mesh, {256, 512, 256}, {.activation = relu, .bias = false}};
    const auto parameters = mlp.parameters();
    scatter(first, parameters[0].value);
    scatter(second, parameters[1].value);
    const auto in = scatter<typename S::Input>(mesh, x);
    const auto& y = mlp.forward(in);
    const std::vector<Shape> blocks{in.block().valid(), parameters[0].value.valid().shape(),
                                    parameters[1].value.valid().shape(), y.block().valid()};
    return std::pair{gather(y), blocks};
  };
  const auto wanted = on_root(one_rank, run).first;
  const auto got = on_mesh(Place<Grid2D>{8, {2, 4}}, run);
  CHECK(identical(got[0].first, wanted));
  for (const auto& [_, blocks] : got)
    CHECK(blocks == std::vector<Shape>{{1024, 32}, {128, 128}, {128, 128}, {1024, 32}});
}
