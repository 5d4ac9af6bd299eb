// SPDX-License-Identifier: BSD-3-Clause
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "cubist/nn/mlp_layer.hpp"

#include "catch.hpp"
#include "nn.hpp"

namespace cubist::test::mlp_layer_test
{

namespace
{

constexpr std::size_t tokens = 13, in = 7, out = 11;

/// The results of a layer, and of its steps by hand: Linear, the activation, the mask.
struct Both
{
  Global<double> y, dx, dw, db, y_by_hand, dx_by_hand, dw_by_hand, db_by_hand;
};

template <SchemeType S>
Both both(const Place<S>& place, const Activation& activation, double p,
          std::optional<std::uint64_t> step)
{
  using A = Activations<S, Threads, double>;
  return on_root(place, [&](const auto& mesh) {
    const LinearOptions options{.seed = 5, .index = 3};
    const Dropout dropout{p, 5, 3};
    cubist::detail::MlpLayer<A, S, Threads, double> layer{
        Dense<S, Threads, double>{mesh, in, out, options, activation, dropout}};
    Linear<S, Threads, double> linear{mesh, in, out, options};

    auto x = scatter<typename S::Input>(mesh, uniform<double>(tokens, in, 1));
    auto dy = scatter<typename S::Output>(mesh, uniform<double>(tokens, out, 2));
    Both b;
    b.y = gather(layer.forward(A{x}, {.training_step = step}));
    b.dx = gather(*layer.backward(A{x}, A{dy}, {.training_step = step}, true));
    layer.finish_backward();
    Parameters<double, typename A::Mesh> parameters;
    layer.append_parameters(parameters, "");
    b.dw = gather(parameters.at(0).gradient);
    b.db = gather(parameters.at(1).gradient);

    auto z = linear.forward(x);
    auto y = z;
    std::visit([&](auto f) { mesh.engine().map(y.valid(), f, std::as_const(z).valid()); },
               activation);
    if (step) dropout.apply(y, *step);
    b.y_by_hand = gather(y);
    if (step) dropout.apply(dy, *step);
    std::visit(
        [&](auto f) {
          mesh.engine().map(
              dy.valid(), [f](double d, double v) { return d * f.derivative(v); },
              std::as_const(dy).valid(), std::as_const(z).valid());
        },
        activation);
    auto dx = x;
    linear.backward(x, dy, dx);
    b.dx_by_hand = gather(dx);
    b.dw_by_hand = gather(linear.weight_gradient());
    b.db_by_hand = gather(linear.bias_gradient());
    return b;
  });
}

}  // namespace

TEST_CASE("a layer is Linear, its activation and its dropout, forward and backward")
{
  for_each_place([](const auto& place) {
    INFO(place.name());
    for (const Activation& activation : {Activation{gelu}, Activation{identity}})
      for (const double p : {0.0, 0.4})
        for (const auto step : {std::optional<std::uint64_t>{}, std::optional<std::uint64_t>{9}})
        {
          const Both b = both(place, activation, p, step);
          CHECK(identical(b.y, b.y_by_hand));
          CHECK(identical(b.dx, b.dx_by_hand));
          CHECK(identical(b.dw, b.dw_by_hand));
          CHECK(identical(b.db, b.db_by_hand));
        }
  });
}

TEST_CASE("a layer drops elements in training only")
{
  if (!fits(single_layer)) return;
  const auto zeros = [](const Global<double>& y) {
    std::size_t n = 0;
    for (const double v : y) n += v == 0 ? 1 : 0;
    return n;
  };
  CHECK(zeros(both(single_layer, identity, 0.4, std::nullopt).y) == 0);
  const std::size_t dropped = zeros(both(single_layer, identity, 0.4, 9).y);
  CHECK(dropped > tokens * out / 5);
  CHECK(dropped < tokens * out * 3 / 5);
}

}  // namespace cubist::test::mlp_layer_test
