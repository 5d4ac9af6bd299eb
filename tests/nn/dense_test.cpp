// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "cubist/engine/host/engine.hpp"
#include "cubist/nn/dense.hpp"
#include "cubist/nn/layers/sequential.hpp"
#include "cubist/nn/mlp.hpp"
#include "cubist/scheme/megatron1d.hpp"
#include "cubist/trace/traced_engine.hpp"

#include "catch.hpp"
#include "nn.hpp"

namespace cubist::test::dense_test
{

namespace
{

constexpr std::size_t tokens = 13, in = 7, out = 11;

static_assert(LayerType<Dense<Cube3D, Threads, double>>);

/// The results of a layer, and of its steps by hand: Linear, the activation, the mask.
struct Both
{
  Global<double> y, dx, dw, db, y_by_hand, dx_by_hand, dw_by_hand, db_by_hand;
};

template <SchemeType S>
Both both(const Place<S>& place, const Activation& activation, double p,
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
    Both b;
    b.y = gather(layer.forward(x, pass));
    b.dx = gather(*layer.backward(x, dy, pass, true));
    layer.finish_backward();
    const auto parameters = parameters_of(layer);
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

/// An engine that computes slopes in the product, or, unless `supported`, is asked in vain.
struct SlopeEngine : HostEngine
{
  static inline thread_local bool supported = true;
  static inline thread_local int computed = 0;

  template <class T, class F>
  bool fused_slopes(MatrixView<const T> dy, MatrixView<const T> w, const F& f,
                    MatrixView<const T> z, MatrixView<T> dz, MatrixView<T> sums) const
  {
    if (!supported) return false;
    ++computed;
    gemm(Op::none, Op::transpose, T{1}, dy, w, T{}, dz);
    map_sums(dz, sums, detail::Slope<F>{f}, MatrixView<const T>{dz}, z);
    return true;
  }
};

static_assert(detail::FusesSlopes<SlopeEngine, double>);
static_assert(detail::FusesSlopes<TracedEngine<SlopeEngine>, double>);
static_assert(!detail::FusesSlopes<TracedEngine<HostEngine>, double>);

struct ComputesSlopes
{
  using Communicator = Threads::Communicator;
  using Engine = SlopeEngine;
};

/// The gradients of two steps of a network, and how many products rank 0 computed with slopes.
struct Fused
{
  std::vector<Global<double>> gradients;
  int computed;
};

template <class List>
void append_gradients(const List& parameters, std::vector<Global<double>>& all)
{
  for (const auto& p : parameters) all.push_back(gather(p.gradient));
}

/// Of an MLP of three layers.
template <class B, SchemeType S>
Fused fused_mlp(const Place<S>& place, const MlpOptions& options, bool supported = true)
{
  return on_ranks<Threads>(place.ranks, [&](auto& world) {
    const Mesh<S, B> mesh{world, place.extents};
    MLP<S, B, double> mlp{mesh, {in, 16, out, 9}, options};
    const auto x = scatter<typename S::Input>(mesh, uniform<double>(tokens, in, 1));
    const auto dy = mlp.scatter_target(uniform<double>(tokens, 9, 2));
    SlopeEngine::computed = 0;
    SlopeEngine::supported = supported;
    Fused found;
    for (int step = 0; step < 2; ++step)
    {
      mlp.forward(x);
      found.gradients.push_back(gather(mlp.backward_with_input(dy)));
      append_gradients(mlp.parameters(), found.gradients);
    }
    found.computed = SlopeEngine::computed;
    return found;
  })[0];
}

/// Of a sequence of two layers.
template <class B, SchemeType S>
Fused fused_sequence(const Place<S>& place, const Dropout& dropout)
{
  return on_ranks<Threads>(place.ranks, [&](auto& world) {
    const Mesh<S, B> mesh{world, place.extents};
    Sequential layers{Dense<S, B, double>{mesh, in, 16, {}, gelu_tanh, dropout},
                      Dense<typename S::Next, B, double>{mesh, 16, out, {.bias = false}, relu}};
    const auto x = scatter<typename S::Input>(mesh, uniform<double>(tokens, in, 1));
    const auto dy = scatter<typename S::Next::Output>(mesh, uniform<double>(tokens, out, 2));
    SlopeEngine::computed = 0;
    SlopeEngine::supported = true;
    Fused found;
    for (const bool wants_dx : {true, false})
    {
      const Pass pass{.training_step = 1};
      layers.forward(x, pass);
      const auto* dx = layers.backward(x, dy, pass, wants_dx);
      layers.finish_backward();
      if (dx) found.gradients.push_back(gather(*dx));
      append_gradients(parameters_of(layers), found.gradients);
    }
    found.computed = SlopeEngine::computed;
    return found;
  })[0];
}

bool same_gradients(const Fused& a, const Fused& b)
{
  return std::equal(a.gradients.begin(), a.gradients.end(), b.gradients.begin(), b.gradients.end(),
                    [](const auto& x, const auto& y) { return identical(x, y); });
}

}  // namespace

TEST_CASE("a dense layer is Linear, its activation and its dropout, forward and backward")
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

TEST_CASE("a dense layer drops elements in training only")
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

TEST_CASE("a dense layer computes dX only where it is wanted, and any number of rows")
{
  const auto all = on_root<Threads>(single_layer, [](const auto& mesh) {
    std::vector<bool> found;
    Dense<Summa25D, Threads, double> layer{mesh, in, out, {}, relu};
    for (const std::size_t rows : {tokens, 2 * tokens, std::size_t{1}})
    {
      const auto x = scatter<Summa25D::Input>(mesh, uniform<double>(rows, in, 1));
      const auto& y = layer.forward(x, {});
      const bool wants_dx = rows != tokens;
      const auto* dx = layer.backward(x, y, {}, wants_dx);
      layer.finish_backward();
      found.push_back(y.shape() == Shape{rows, out});
      found.push_back(wants_dx ? dx->shape() == Shape{rows, in} : dx == nullptr);
    }
    return found;
  });
  CHECK(all == std::vector<bool>(6, true));
}

TEST_CASE("slopes are computed in the product after them, where it is local, with the same bits")
{
  const auto check = [](const auto& place, int computed) {
    if (!fits(place)) return;
    CAPTURE(place.name());
    const Fused got = fused_sequence<ComputesSlopes>(place, Dropout{0});
    CHECK(same_gradients(got, fused_sequence<Threads>(place, Dropout{0})));
    CHECK(got.computed == computed);
  };
  check(Place<Megatron1D>{2, {.p = 2}}, 2);
  check(single_layer, 0);  // dX is a product of blocks of several ranks
  check(single_rank, 2);
}

TEST_CASE("slopes are computed apart with dropout, at recomputed layers, and where an engine can't")
{
  const Place<Megatron1D> one{1, {.p = 1}};
  const auto check = [&](const MlpOptions& options, bool supported) {
    const Fused got = fused_mlp<ComputesSlopes>(one, options, supported);
    CHECK(same_gradients(got, fused_mlp<Threads>(one, options)));
    return got.computed;
  };
  const MlpOptions both{.activation = gelu_tanh, .output = relu};
  CHECK(check(both, true) == 4);
  const Place<Megatron1D> two{2, {.p = 2}};
  if (fits(two))
  {
    const Fused got = fused_mlp<ComputesSlopes>(two, both);
    CHECK(same_gradients(got, fused_mlp<Threads>(two, both)));
    CHECK(got.computed == 2);  // one of two: dX of the last layer is a sum over ranks
  }
  CHECK(check({}, true) == 4);
  CHECK(check({.dropout = 0.3}, true) == 0);
  CHECK(check({.recompute = 1}, true) == 0);
  CHECK(check({.recompute = 2}, true) == 2);
  CHECK(check({.activation = identity}, true) == 0);
  CHECK(check({}, false) == 0);
  CHECK(fused_sequence<ComputesSlopes>(one, Dropout{0.3}).computed == 0);
}

}  // namespace cubist::test::dense_test
