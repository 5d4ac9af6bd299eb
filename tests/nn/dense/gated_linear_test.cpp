// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/nn/dense/gated_linear.hpp"

#include "nn.hpp"
#include "passes.hpp"

namespace cubist::test::gated_linear_test
{

TEST_CASE("a gated layer of one element is as computed by hand")
{
  // X = 1, V = a = W = 0, b = 4: Y = silu(0) 4, and dV = silu'(0) 4 dY.
  const auto [y, dv] = on_root<Threads>(one_rank, [](const auto& mesh) {
    GatedLinear<Summa2D, Threads, double> layer{mesh, 1, 1, {}};
    const auto parameters = parameters_of(layer);
    for (const auto& p : parameters)
      scatter(Global<double>{{&p == &parameters.back() ? 4.0 : 0.0}}, p.value);
    Passes passes{layer};
    const auto x = scatter<Summa2D::Input>(mesh, Global<double>{{1}});
    const auto dy = scatter<Summa2D::Output>(mesh, Global<double>{{3}});
    auto result = gather(passes.forward(x, {}));
    (void)passes.backward(x, dy, {}, true);
    return std::pair{result, gather(parameters.front().gradient)};
  });
  CHECK(y(0, 0) == 0);
  CHECK(dv(0, 0) == Approx(6));
}

constexpr std::size_t rows = 12, in = 7, out = 10;

struct Results
{
  Global<double> y, dx;
  std::vector<Global<double>> gradients;  // of gate.weight, gate.bias, up.weight, up.bias
};

static double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

/// Computes the layer serially from V, a, W, b, in this order.
static Results serial(const Global<double>& x, const Global<double>& dy,
                      const std::vector<Global<double>>& parameters)
{
  auto g = product(x, parameters[0]);
  auto u = product(x, parameters[2]);
  auto y = u, dg = u, du = u;
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < out; ++j)
    {
      g(i, j) += parameters[1](0, j);
      u(i, j) += parameters[3](0, j);
      const double s = sigmoid_of(g(i, j));
      y(i, j) = g(i, j) * s * u(i, j);
      du(i, j) = g(i, j) * s * dy(i, j);
      dg(i, j) = s * (1 + g(i, j) * (1 - s)) * u(i, j) * dy(i, j);
    }
  auto dx = product(dg, transposed(parameters[0]));
  const auto more = product(du, transposed(parameters[2]));
  for (std::size_t i = 0; i < dx.size(); ++i) dx.data()[i] += more.data()[i];
  return {
      y,
      dx,
      {product(transposed(x), dg), column_sums(dg), product(transposed(x), du), column_sums(du)}};
}

template <class S>
void equals_serial(const Place<S>& place)
{

  CAPTURE(place.name());
  const auto x = uniform<double>(rows, in, 1);
  const auto dy = uniform<double>(rows, out, 2);
  using Layer = GatedLinear<S, Threads, double>;
  static_assert(LayerType<Layer>);
  auto [got, parameters] = on_root<Threads>(place, [&](const auto& mesh) {
    Layer layer{mesh, in, out, {.seed = 3}};
    Passes passes{layer};
    std::pair<Results, std::vector<Global<double>>> r;
    const auto xs = scatter<typename S::Input>(mesh, x);
    r.first.y = gather(passes.forward(xs, {}));
    const auto dys = scatter<typename S::Output>(mesh, dy);
    r.first.dx = gather(*passes.backward(xs, dys, {}, true));
    for (const auto& p : parameters_of(layer))
    {
      r.second.push_back(gather(p.value));
      r.first.gradients.push_back(gather(p.gradient));
    }
    return r;
  });
  const auto wanted = serial(x, dy, parameters);
  CHECK(difference(got.y, wanted.y) < 1e-14);
  CHECK(difference(got.dx, wanted.dx) < 1e-13);
  REQUIRE(got.gradients.size() == 4);
  for (std::size_t i = 0; i < 4; ++i)
    CHECK(difference(got.gradients[i], wanted.gradients[i]) < 1e-13);
}

TEST_CASE("a gated layer computes Y, dX and its gradients as a serial one does")
{
  equals_serial(Place<Summa2DInput>{6, {.rows = 2, .cols = 3}});
  equals_serial(cube);
  equals_serial(Place<Megatron1D>{4, {.p = 4}});
}

}  // namespace cubist::test::gated_linear_test
