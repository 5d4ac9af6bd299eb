// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/nn/dense/dense.hpp"

#include "bend.hpp"
#include "nn.hpp"
#include "passes.hpp"

namespace cubist::test::dense_test
{

/// An engine whose memory is treated as that of a device.
struct DeviceEngine
{
};

}  // namespace cubist::test::dense_test

template <>
inline constexpr bool cubist::in_host_memory<cubist::test::dense_test::DeviceEngine> = false;

namespace cubist::test::dense_test
{

constexpr std::size_t tokens = 13, in = 7, out = 11;

static_assert(LayerType<Dense<Cube3D, Threads, double>>);

/// Y, dX, dW and db of a layer, and of its steps by hand: Linear, activation, mask.
using Results = std::vector<Global<double>>;

template <SchemeType S>
std::pair<Results, Results> both(const Place<S>& place, const Activation& activation, double p,
                                 std::optional<std::uint64_t> step)
{
  return on_root(place, [&](const auto& mesh) {
    const LinearOptions options{.seed = 5, .index = 3};
    const Dropout dropout{p, 5, 3};
    Dense<S, Threads, double> made{mesh, in, out, options, activation, dropout};
    auto layer = std::move(made);
    Linear<S, Threads, double> linear{mesh, in, out, options};
    const Pass pass{.training_step = step};

    auto x = scatter<typename S::Input>(mesh, uniform<double>(tokens, in, 1));
    auto dy = scatter<typename S::Output>(mesh, uniform<double>(tokens, out, 2));
    Passes passes{layer};
    Results of_layer{gather(passes.forward(x, pass))};
    of_layer.push_back(gather(*passes.backward(x, dy, pass, true)));
    for (const auto& parameter : parameters_of(layer))
      of_layer.push_back(gather(parameter.gradient));

    auto z = linear.forward(x);
    auto y = z;
    std::visit([&](auto f) { mesh.engine().map(y.valid(), f, std::as_const(z).valid()); },
               activation);
    if (step) dropout.apply(y, *step);
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
    return std::pair{of_layer, Results{gather(y), gather(dx), gather(linear.weight_gradient()),
                                       gather(linear.bias_gradient())}};
  });
}

TEST_CASE("a dense layer is Linear, its activation and its dropout, forward and backward")
{
  for_each_place([](const auto& place) {
    INFO(place.name());
    for (const Activation& activation :
         {Activation{gelu}, Activation{identity}, Activation{Bend{2}}})
      for (const double p : {0.0, 0.4})
        for (const auto step : {std::optional<std::uint64_t>{}, std::optional<std::uint64_t>{9}})
        {
          const auto [of_layer, by_hand] = both(place, activation, p, step);
          REQUIRE(of_layer.size() == by_hand.size());
          for (std::size_t i = 0; i < by_hand.size(); ++i)
          {
            CAPTURE(i);
            CHECK(identical(of_layer[i], by_hand[i]));
          }
        }
  });
}

TEMPLATE_TEST_CASE("a dense layer whose weights are stored in fewer bits keeps no Z", "", float,
                   bfloat16)
{
  using T = TestType;
  for_each_place([](const auto& place) {
    INFO(place.name());
    using S = typename std::decay_t<decltype(place)>::Scheme;
    const auto both = on_root<Threads>(place, [](const auto& mesh) {
      const LinearOptions options{.seed = 5, .index = 3, .gradients = false};
      Dense<S, Threads, T> layer{{mesh, in, out, options, StoredWeights::q8}, gelu};
      Linear<S, Threads, T> linear{mesh, in, out, options, StoredWeights::q8};
      const auto x = scatter<typename S::Input>(mesh, uniform<T>(tokens, in, 1));
      typename decltype(layer)::Kept kept;
      const auto y = gather(layer.forward(x, {}, kept));
      auto z = linear.make_output(x);
      auto with_z = z;
      typename decltype(linear)::Kept kept_by_hand;
      linear.forward(x, z, Activation{gelu}, with_z, kept_by_hand);
      return std::tuple{y, gather(with_z), kept.z.has_value()};
    });
    CHECK(identical(std::get<0>(both), std::get<1>(both)));
    CHECK_FALSE(std::get<2>(both));
  });
}

TEST_CASE("a program's own activation is refused where the engine is not on the host")
{
  const Activation own = Bend{2};
  CHECK_NOTHROW(cubist::detail::require_callable(HostEngine{}, own));
  CHECK_NOTHROW(cubist::detail::require_callable(DeviceEngine{}, gelu));
  CHECK(mentions(
      message_of<ArgumentError>([&] { cubist::detail::require_callable(DeviceEngine{}, own); }),
      "the program's own activation on a GPU", "CONTRIBUTING.md", "docs/layers.md"));
}

TEST_CASE("a dense layer drops elements in training only")
{
  if (!fits(single_layer)) return;
  const auto zeros = [](const Global<double>& y) {
    std::size_t n = 0;
    for (const double v : y) n += v == 0 ? 1 : 0;
    return n;
  };
  CHECK(zeros(both(single_layer, identity, 0.4, std::nullopt).first[0]) == 0);
  const std::size_t dropped = zeros(both(single_layer, identity, 0.4, 9).first[0]);
  CHECK(dropped > tokens * out / 5);
  CHECK(dropped < tokens * out * 3 / 5);
}

TEST_CASE("a dense layer computes dX only where it is wanted, and any number of rows")
{
  const auto all = on_root<Threads>(single_layer, [](const auto& mesh) {
    std::vector<bool> found;
    Dense<Summa25D, Threads, double> layer{mesh, in, out, {}, relu};
    decltype(layer)::Kept kept;
    ImmediateSums<double, decltype(layer)::Mesh> sums;
    for (const std::size_t rows : {tokens, 2 * tokens, std::size_t{1}})
    {
      const auto x = scatter<Summa25D::Input>(mesh, uniform<double>(rows, in, 1));
      const auto& y = layer.forward(x, {}, kept);
      const bool wants_dx = rows != tokens;
      const auto* dx = layer.backward(x, y, {{}, sums}, kept, wants_dx);
      found.push_back(y.shape() == Shape{rows, out});
      found.push_back(wants_dx ? dx->shape() == Shape{rows, in} : dx == nullptr);
    }
    return found;
  });
  CHECK(all == std::vector<bool>(6, true));
}

TEST_CASE("matrices unlike a dense layer's output are refused")
{
  if (!fits(single_layer)) return;
  const auto run = [](Shape y, Shape dy, bool elsewhere) {
    on_mesh(single_layer, [&](const auto& mesh) {
      const Mesh<Summa25D, Threads> other{mesh.world(), {.q = 2}};
      using Layer = Dense<Summa25D, Threads, double>;
      using Matrix = Layer::Output;
      Layer layer{mesh, 7, 5, {}, gelu};
      Layer::Kept kept;
      ImmediateSums<double, Layer::Mesh> sums;
      const Matrix x{mesh, {3, 7}};
      Matrix result{mesh, y};
      Matrix dx{mesh, {3, 7}};
      layer.forward(x, result, {}, kept);
      const Matrix given{elsewhere ? other : mesh, dy};
      layer.backward(x, given, {{}, sums}, kept, &dx);
      return 0;
    });
  };
  CHECK_NOTHROW(run({3, 5}, {3, 5}, false));
  CHECK(mentions(message_of<ShapeError>([&] {
                   run({3, 6}, {3, 5}, false);
                 }),
                 "got Y of (3, 6)", "make it like Y"));
  CHECK(mentions(message_of<ShapeError>([&] {
                   run({3, 5}, {4, 5}, false);
                 }),
                 "got dY of (4, 5) for a Y of (3, 5)", "make it like Y"));
  CHECK(mentions(message_of<MeshError>([&] {
                   run({3, 5}, {3, 5}, true);
                 }),
                 "got dY of (3, 5)", "make it on the layer's mesh"));
}

}  // namespace cubist::test::dense_test
