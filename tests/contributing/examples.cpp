// SPDX-License-Identifier: BSD-3-Clause
// The examples of CONTRIBUTING.md, docs/extending.md, docs/layers.md and docs/activations.md, which
// extract.cmake extracts, in one translation unit.

#include <string>
#include <vector>

#include "cubist/nn/dense/activation.hpp"
#include "cubist/plan/cost.hpp"
#include "cubist/scheme/catalogue.hpp"
#include "cubist/scheme/cube3d.hpp"

// The layers and programs of docs/layers.md and docs/activations.md.
#include "square.hpp"
#define main run_train_scale
#include "train_scale.cpp"
#undef main
#define main run_fit_parabola
#include "fit_parabola.cpp"
#undef main

#include "tests/backend/serial_test.cpp"
#include "tests/comm/serial/communicator_test.cpp"
#include "tests/nn/scale_test.cpp"
#include "tests/scheme/row_shard1d_test.cpp"

using namespace cubist;
using namespace cubist::test;

TEST_CASE("the catalogue lists the scheme of docs/extending.md, and the planner knows its cost")
{
  CHECK(cubist::scheme_names().find("RowShard1D") != std::string::npos);
  // On 4 ranks it costs (P-1)/P KN.
  const auto cost = cubist::cost<cubist::RowShard1D>({4}, {.m = 8, .n = 12, .k = 16});
  CHECK(cost.forward.words() == 3 * 12 * 16 / 4);
}

TEST_CASE("the activation of CONTRIBUTING.md has a value and a derivative")
{
  const cubist::Activation f = cubist::leaky_relu;
  CHECK(std::holds_alternative<cubist::LeakyRelu>(f));
  CHECK(cubist::leaky_relu(3.0) == 3);
  CHECK(cubist::leaky_relu(-2.0) == -0.02);
  CHECK(cubist::leaky_relu.derivative(-2.0) == 0.01);
}

static_assert(LayerType<my::Square<Cube3D, Threads, float>>);

TEST_CASE("the smallest layer of docs/layers.md squares, and its gradient is the serial one")
{
  const auto x = integers<float>(5, 7, 1);
  const auto dy = integers<float>(5, 7, 2);
  const auto of_elements = [](const auto& f) {
    return generate<float>(5, 7, [&](std::size_t i, std::size_t j) { return f(i, j); });
  };
  const auto [y, dx] = on_root<Threads>(cube, [&]<class Mesh>(const Mesh& mesh) {
    using Layout = typename Cube3D::Input;
    my::Square<Cube3D, Threads, float> square;
    const auto in = scatter<Layout>(mesh, x);
    const auto gradient = scatter<Layout>(mesh, dy);
    Passes passes{square};
    const auto& out = passes.forward(in, {});
    const auto* of_in = passes.backward(in, gradient, {}, true);
    return std::pair{gather(out), gather(*of_in)};
  });
  CHECK(identical(y, of_elements([&](auto i, auto j) { return x(i, j) * x(i, j); })));
  CHECK(identical(dx, of_elements([&](auto i, auto j) { return 2 * x(i, j) * dy(i, j); })));
}

TEST_CASE("the network of docs/layers.md learns, on schemes of one layout and of two")
{
  const auto falls = [](const std::vector<double>& losses) {
    return losses.size() == 20 && losses.back() < 0.5 * losses.front();
  };
  CHECK(falls(on_root<Threads>(two_two_two, [](const auto& mesh) { return train(mesh, 20); })));
  CHECK(falls(on_root<Threads>(cube, [](const auto& mesh) { return train(mesh, 20); })));
}

TEST_CASE("the activation of docs/activations.md learns, with equal losses on all schemes")
{
  const auto on = [](const auto& place, int steps) {
    return on_root<Threads>(place, [&](const auto& mesh) { return fit(mesh, steps); });
  };
  const auto wanted = on(one_rank, 200);
  CHECK(wanted.back() < 0.01 * wanted.front());
  for (const auto& losses : {on(two_two_two, 10), on(cube, 10)})
    for (std::size_t i = 0; i < losses.size(); ++i)
      CHECK(losses[i] == Approx(wanted[i]).epsilon(1e-4));
}

TEST_CASE("the programs of docs/layers.md and docs/activations.md succeed")
{
  char name[] = "program";
  char* arguments[] = {name, nullptr};
  CHECK(run_train_scale(1, arguments) == 0);
  CHECK(run_fit_parabola(1, arguments) == 0);
}
