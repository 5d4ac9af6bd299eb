// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/backend/threads.hpp"
#include "cubist/engine/decorator.hpp"
#include "cubist/nn/dense/linear.hpp"
#include "cubist/nn/dense/lora.hpp"
#include "cubist/nn/optimizers/optimizer.hpp"
#include "cubist/training/numerics_monitor.hpp"

#include "nn.hpp"

namespace cubist::test::lora_test
{

constexpr std::size_t rows = 13, in = 7, out = 11, rank = 2;
const LoraOptions options{.rank = rank, .alpha = 4};  // s = 2

struct Results
{
  Global<double> a, y, dx, da, db;
};

template <class M>
using List = Parameters<double, M>;

/// The results of one forward and one backward pass of a layer of `L` whose matrices are integers.
/// `a` is A before the passes.
template <SchemeType L, class Place>
Results results_on(const Place& place)
{
  return on_root(place, [](const auto& mesh) {
    using Layer = Linear<L, TestBackend, double>;
    Layer layer{mesh, in, out, {.seed = 7, .index = 3}};
    add_lora(layer, 0, options);
    List<typename Layer::Mesh> all;
    layer.append_parameters(all, "");
    all[0].freeze();
    all.clear();
    layer.append_parameters(all, "");
    Results r;
    r.a = gather(all[1].value);
    check_replicas_of_values(all);
    scatter(integers<double>(in, out, 1), all[0].value);
    scatter(integers<double>(in, rank, 2), all[1].value);
    scatter(integers<double>(rank, out, 3), all[2].value);
    scatter(integers<double>(1, out, 4), all[3].value);
    const auto x = scatter<typename L::Input>(mesh, integers<double>(rows, in, 5));
    const auto dy = scatter<typename L::Output>(mesh, integers<double>(rows, out, 6));
    r.y = gather(layer.forward(x));
    auto dx = x;
    layer.backward(x, dy, dx);
    check_replicas(all);
    r.dx = gather(dx);
    r.da = gather(all[1].gradient);
    r.db = gather(all[2].gradient);
    return r;
  });
}

template <class F>
Global<double> each(const Global<double>& a, const Global<double>& b, F f)
{
  return generate<double>(a.shape(0), a.shape(1),
                          [&](std::size_t i, std::size_t j) { return f(a(i, j), b(i, j)); });
}

TEST_CASE("a layer with LoRA computes X W + b + s (X A) B")
{
  const auto y = on_root<Threads>(one_rank, [](const auto& mesh) {
    Linear<Summa2D, Threads, double> layer{mesh, 2, 1};
    add_lora(layer, 0, {.rank = 1, .alpha = 10});
    List<typename decltype(layer)::Mesh> all;
    layer.append_parameters(all, "");
    scatter(Global<double>{{3}, {4}}, all[0].value);  // W
    scatter(Global<double>{{1}, {1}}, all[1].value);  // A
    scatter(Global<double>{{2}}, all[2].value);       // B
    scatter(Global<double>{{7}}, all[3].value);       // b
    return gather(layer.forward(scatter<Summa2D::Input>(mesh, Global<double>{{1, 2}})));
  });
  CHECK(identical(y, Global<double>{{3 + 8 + 7 + 10 * 3 * 2}}));
}

TEST_CASE("LoRA is the same on every scheme and mesh, and begins with the same bits")
{
  const auto x = integers<double>(rows, in, 5);
  const auto dy = integers<double>(rows, out, 6);
  const auto w = integers<double>(in, out, 1), a = integers<double>(in, rank, 2);
  const auto b = integers<double>(rank, out, 3), bias = integers<double>(1, out, 4);
  const auto add_twice = [](double p, double q) { return p + 2 * q; };
  const auto thin = product(x, a);
  const auto d_thin = product(dy, transposed(b));
  auto y = each(product(x, w), product(thin, b), add_twice);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < out; ++j) y(i, j) += bias(0, j);
  const auto dx = each(product(dy, transposed(w)), product(d_thin, transposed(a)), add_twice);
  const auto twice = [&](const Global<double>& m) {
    return each(m, m, [](double p, double) { return 2 * p; });
  };
  const auto da = twice(product(transposed(x), d_thin));
  const auto db = twice(product(transposed(thin), dy));
  const auto initial = results_on<Summa2D>(one_rank).a;
  for (const double v : initial) CHECK(std::abs(v) <= 1 / std::sqrt(double(in)));
  CHECK(initial(0, 0) != initial(1, 0));

  const auto check = [&](const Results& got) {
    CHECK(identical(got.a, initial));
    CHECK(identical(got.y, y));
    CHECK(identical(got.dx, dx));
    CHECK(identical(got.da, da));
    CHECK(identical(got.db, db));
  };
  const auto on = [&]<class S>(const Place<S>& place) {
    if (!fits(place)) return;
    CAPTURE(place.name());
    check(results_on<S>(place));
    check(results_on<typename S::Next>(place));
  };
  for_each_scheme([&]<class S>() {
    if constexpr (is_typical<S> || !few_schemes_suffice)
      for (int ranks = 1; ranks <= 8; ++ranks)
      {
        std::optional<typename S::Axes::Array> extents;
        try
        {
          extents = S::extents({}, ranks);
        }
        catch (const MeshError&)
        {
        }
        if (extents) on(Place<S>{ranks, {}});
      }
  });
  on(Place<DataParallel<Megatron1DSequence>>{6, {2, {3}}});
}

TEST_CASE("A and B have the rate and the decay of their group, or the optimizer's")
{
  const AdamOptions adam{
      .learning_rate = 0.125,
      .weight_decay = 0.5,
      .groups = {{.names = {"lora_b"}, .learning_rate = 2, .weight_decay = 0.25}}};
  const auto on = [&]<class S>(const Place<S>& place) {
    CAPTURE(place.name());
    const auto results = on_root<Threads>(place, [&](const auto& mesh) {
      using Layer = Linear<S, Threads, double>;
      Layer layer{mesh, in, out, {.bias = false, .seed = 7}};
      add_lora(layer, 0, options);
      List<typename Layer::Mesh> all;
      layer.append_parameters(all, "");
      all[0].freeze();
      all.clear();
      layer.append_parameters(all, "");
      scatter(integers<double>(rank, out, 3), all[2].value);
      const auto values = [&] {
        return std::vector{gather(all[0].value), gather(all[1].value), gather(all[2].value)};
      };
      const auto x = scatter<typename S::Input>(mesh, integers<double>(rows, in, 5));
      (void)layer.forward(x);
      layer.backward(x, scatter<typename S::Output>(mesh, integers<double>(rows, out, 6)));
      const auto first = values();
      AdamW optimizer{all, adam};
      optimizer.step(all);
      check_replicas_of_values(all);
      return std::tuple{first, values(),
                        std::vector{gather(all[1].gradient), gather(all[2].gradient)}};
    });
    const auto& before = std::get<0>(results);
    const auto& after = std::get<1>(results);
    const auto& gradients = std::get<2>(results);
    // Adam's first step is the rate times the gradient's sign.
    const auto stepped = [&](std::size_t i, double rate, double decay) {
      return each(before[i], gradients[i - 1], [&](double w, double g) {
        return w * (1 - rate * decay) - rate * g / (std::abs(g) + adam.epsilon);
      });
    };
    CHECK(identical(after[0], before[0]));
    CHECK(difference(after[1], stepped(1, 0.125, 0.5)) < 1e-14);
    CHECK(difference(after[2], stepped(2, 2, 0.25)) < 1e-14);
  };
  on(one_rank);
  on(Place<Megatron1D>{3, {.p = 3}});
  on(two_two_two);
}

/// The largest element in each row of B's gradient, or of dX - dY W^T.
template <SchemeType S>
std::pair<Global<double>, Global<double>> with_dropout(const Place<S>& place, std::uint64_t step)
{
  return on_root(place, [&](const auto& mesh) {
    using Layer = Linear<S, TestBackend, double>;
    Layer layer{mesh, in, out, {.bias = false, .seed = 7}};
    auto dropping = options;
    dropping.dropout = 0.5;
    add_lora(layer, 0, dropping);
    List<typename Layer::Mesh> all;
    layer.append_parameters(all, "");
    scatter(Global<double>(xt::zeros<double>({in, out})), all[0].value);
    scatter(integers<double>(in, rank, 2), all[1].value);
    scatter(integers<double>(rank, out, 3), all[2].value);
    const auto x = scatter<typename S::Input>(mesh, integers<double>(rows, in, 5));
    const auto dy = scatter<typename S::Output>(mesh, integers<double>(rows, out, 6));
    const Pass pass{.training_step = TrainingStep{step}};
    typename Layer::Kept kept;
    auto y = layer.make_output(x);
    layer.forward(x, y, kept, pass);
    auto dx = x;
    ImmediateSums<double, typename Layer::Mesh> sums;
    layer.backward(x, dy, sums, kept, &dx, pass);
    return std::pair{gather(y), gather(dx)};
  });
}

TEST_CASE(
    "LoRA drops elements of X, the same on every mesh and in backward, and others in each step")
{
  const auto wanted = with_dropout(one_rank, 0);
  const auto& [y, dx] = wanted;
  // dX is 0 where X was dropped, which is about half of its elements.
  const auto undropped =
      product(product(integers<double>(rows, out, 6), transposed(integers<double>(rank, out, 3))),
              transposed(integers<double>(in, rank, 2)));
  std::size_t zeros = 0, all = 0;
  for (std::size_t e = 0; e < dx.size(); ++e)
  {
    if (undropped.data()[e] == 0) continue;
    ++all;
    if (dx.data()[e] == 0)
      ++zeros;
    else
      CHECK(dx.data()[e] == 4 * undropped.data()[e]);  // s / (1 - p)
  }
  CHECK(zeros > all / 4);
  CHECK(zeros < 3 * all / 4);
  CHECK_FALSE(identical(with_dropout(one_rank, 1).first, y));
  for_each_place_of<Cube3D>([&](const auto& place) {
    const auto [y_there, dx_there] = with_dropout(place, 0);
    CHECK(identical(y_there, wanted.first));
    CHECK(identical(dx_there, wanted.second));
  });
}

/// Counts the multiplications of all products, and of products as large as (rows, in) (in, out).
struct CountedEngine : EngineDecorator<CountedEngine, HostEngine>
{
  static inline std::size_t all = 0, large = 0;

  [[nodiscard]] static int around(const EngineCall& call)
  {
    if (!call.is_product) return 0;
    const auto [m, n, k] = call.name.numbers;
    all += m * n * k;
    if (m * n * k == rows * in * out) large += 1;
    return 0;
  }
};
/// A backend with one rank, whose products are counted.
struct CountedThread : BackendDecorator<CountedThread, Threads>
{
  using Communicator = Threads::Communicator;
  using Engine = CountedEngine;
};

TEST_CASE("beside a frozen weight no product computes its gradient, and the others are thin")
{
  const auto [all, large] = on_root<CountedThread>(one_rank, [](const auto& mesh) {
    using Layer = Linear<Summa2D, CountedThread, double>;
    Layer layer{mesh, in, out, {.bias = false}};
    add_lora(layer, 0, options);
    List<typename Layer::Mesh> list;
    layer.append_parameters(list, "");
    list[0].freeze();
    const auto x = scatter<Summa2D::Input>(mesh, integers<double>(rows, in, 5));
    auto dx = x;
    CountedEngine::all = CountedEngine::large = 0;
    const auto y = layer.forward(x);
    layer.backward(x, y, dx);
    return std::pair{CountedEngine::all, CountedEngine::large};
  });
  CHECK(large == 2);  // X W and dY W^T
  CHECK(all == 2 * rows * in * out + 3 * rows * rank * (in + out));
}

}  // namespace cubist::test::lora_test
