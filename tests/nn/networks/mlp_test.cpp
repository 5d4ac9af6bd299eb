// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/nn/networks/mlp.hpp"
#include "cubist/plan/cost.hpp"

#include "bend.hpp"
#include "training.hpp"

namespace cubist::test::mlp_test
{

template <class S, class T = double>
using Network = MLP<S, Threads, T>;

TEST_CASE("a network of two ReLUs computes the absolute value")
{
  const auto y = on_root(one_rank, [](const auto& mesh) {
    Network<Summa2D> mlp{mesh, {1, 2, 1}, {.activation = relu, .bias = false}};
    const auto parameters = mlp.parameters();
    scatter(Global<double>{{1, -1}}, parameters[0].value);
    scatter(Global<double>{{1}, {1}}, parameters[1].value);
    return gather(mlp.forward(scatter<Summa2D::Input>(mesh, Global<double>{{-3}, {2}})));
  });
  CHECK(identical(y, Global<double>{{3}, {2}}));
}

TEST_CASE("a network of floats trains as on one rank")
{
  for (const auto& t : {two_layers, three_layers})
  {
    const auto wanted = loss_curve<float>(single_rank, t);
    CHECK(wanted.back() < wanted.front());
    CHECK(deviation(loss_curve<float>(two_two_two, t), wanted) < 1e-3);
  }
}

// Rounding changes activations, and the weights in products, by up to 2^-9 of their size.
TEST_CASE("a network of bfloat16 trains as one of floats")
{
  if (!fits(single_layer)) return;
  const auto wanted = loss_curve<float>(single_layer, two_layers);
  const auto got = loss_curve<bfloat16>(single_layer, two_layers);
  CHECK(deviation(got, wanted) < 0x1p-7);
  if (two_layers.steps > 4) CHECK(got.back() < got.front() / 2);
  auto lora = two_layers;
  lora.lora = LoraOptions{.rank = 4, .alpha = 8, .dropout = 0.1};
  const auto of_lora = loss_curve<bfloat16>(single_layer, lora);
  CHECK(deviation(of_lora, loss_curve<float>(single_layer, lora)) < 0x1p-6);
  if (lora.steps > 4) CHECK(of_lora.back() < of_lora.front());
}

TEST_CASE("Gathered::again and Gathered::kept give the same losses")
{
  if (!fits(cube)) return;
  auto again = three_layers;
  again.options.gathered = Gathered::again;
  CHECK(loss_curve<double>(cube, again) == loss_curve<double>(cube, three_layers));
}

/// The values of all parameters, by name and shape.
struct Named
{
  std::string name;
  Global<double> value;
};
template <class S>
std::vector<Named> gathered(MLP<S, Threads, double>& mlp)
{
  std::vector<Named> all;
  for (const auto& p : mlp.parameters()) all.push_back({p.name, gather(p.value)});
  return all;
}

TEST_CASE("a padded sigmoid network trains as on one rank, and its padding stays zero")
{
  constexpr int exact_steps = sanitized ? 4 : 30;
  const auto run = [&]<class S>(const Mesh<S, Threads>& mesh) {
    using Net = Network<S>;
    Net mlp{mesh, {7, 11, 9, 5}, {.activation = sigmoid, .output = sigmoid}};
    const auto parameters = mlp.parameters();
    Sgd<double, typename Net::Mesh> optimizer{parameters, {.learning_rate = 0.5, .momentum = 0.9}};
    const typename Net::Activations x{
        scatter<typename S::Input>(mesh, uniform<double>(rows, 7, 1))};
    const auto labels = classes(rows, 5);
    std::vector<double> curve;
    Padding p;
    for (int i = 0; i < exact_steps; ++i)
    {
      const auto& y = mlp.forward(x);
      auto dy = zeros_like(y);
      curve.push_back(softmax_cross_entropy(y, labels, dy));
      const auto& dx = mlp.backward_with_input(dy);
      checked_step(static_cast<std::size_t>(i), exact_steps, optimizer, parameters);
      for (const auto& parameter : parameters)
      {
        p += padding(parameter.value);
        p += padding(parameter.gradient);
      }
      p += padding(y.view());
      p += padding(dy.view());
      p += padding(dx.view());
    }
    for (const auto& [_, value] : gathered(mlp))
      curve.insert(curve.end(), value.begin(), value.end());
    return std::pair{curve, p};
  };
  const auto wanted = on_root(single_rank, run).first;
  CHECK(wanted[exact_steps - 1] < wanted[0]);
  for_each_place([&](const auto& place) {
    CAPTURE(place.name());
    const auto got = on_mesh(place, run);
    CHECK(deviation(got[0].first, wanted) < 1e-12);
    Padding all;
    for (const auto& [_, p] : got) all += p;
    CHECK(all.count > 0);
    CHECK(all.largest == 0);
  });
}

/// A network of integers, computed serially: all sums are exact.
/// @param slope the slope of the activation for negative numbers; ReLU's is 0
struct Exact
{
  std::vector<Global<double>> w, b, dw, db;
  Global<double> y, dx;
};

static Exact exact_network(const std::vector<std::size_t>& sizes, const Global<double>& x,
                           const Global<double>& dy, double slope)
{
  Exact e;
  std::vector<Global<double>> zs;
  std::vector<Global<double>> ins{x};
  const std::size_t layers = sizes.size() - 1;
  for (std::size_t l = 0; l < layers; ++l)
  {
    e.w.push_back(integers<double>(sizes[l], sizes[l + 1], 10 + l));
    e.b.push_back(integers<double>(1, sizes[l + 1], 20 + l));
    auto z = product(ins.back(), e.w[l]);
    for (std::size_t i = 0; i < z.size(); ++i) z.data()[i] += e.b[l].data()[i % sizes[l + 1]];
    zs.push_back(z);
    if (l + 1 < layers)
      for (auto& v : z) v = v > 0 ? v : slope * v;
    ins.push_back(z);
  }
  e.y = ins.back();
  auto d = dy;
  e.dw.resize(layers);
  e.db.resize(layers);
  for (std::size_t l = layers; l-- > 0;)
  {
    if (l + 1 < layers)
      for (std::size_t i = 0; i < d.size(); ++i) d.data()[i] *= zs[l].data()[i] > 0 ? 1 : slope;
    e.dw[l] = product(transposed(ins[l]), d);
    e.db[l] = column_sums(d);
    d = product(d, transposed(e.w[l]));
  }
  e.dx = d;
  return e;
}

static std::size_t zeros_in(const Global<double>& x)
{
  return static_cast<std::size_t>(std::count(x.data(), x.data() + x.size(), 0.0));
}

TEST_CASE("outputs and all gradients of a network of integers equal the serial oracle")
{
  const struct
  {
    std::vector<std::size_t> sizes;
    Activation activation;
    double slope;
  } cases[] = {{{7, 6, 5}, relu, 0}, {{7, 6, 9, 5}, relu, 0}, {{7, 6, 9, 5}, Bend{-3}, -3}};
  for (const auto& tested : cases)
    for_each_place([&]<class S>(const Place<S>& place) {
      const auto x = integers<double>(rows, 7, 1);
      const auto dy = integers<double>(rows, 5, 2);
      const auto wanted = exact_network(tested.sizes, x, dy, tested.slope);
      const auto got = on_root(place, [&](const auto& mesh) {
        Network<S> mlp{mesh, tested.sizes, {.activation = tested.activation}};
        const auto parameters = mlp.parameters();
        for (std::size_t l = 0; l < wanted.w.size(); ++l)
        {
          scatter(wanted.w[l], parameters[2 * l].value);
          scatter(wanted.b[l], parameters[2 * l + 1].value);
        }
        Exact e;
        const auto& y = mlp.forward(scatter<typename S::Input>(mesh, x));
        e.y = gather(y);
        auto d = zeros_like(y);
        scatter(dy, d.view());
        e.dx = gather(mlp.backward_with_input(d));
        for (std::size_t l = 0; l < wanted.w.size(); ++l)
        {
          e.dw.push_back(gather(parameters[2 * l].gradient));
          e.db.push_back(gather(parameters[2 * l + 1].gradient));
        }
        return e;
      });
      CAPTURE(place.name(), tested.sizes.size());
      CHECK(zeros_in(wanted.dw[0]) < wanted.dw[0].size());
      CHECK(identical(got.y, wanted.y));
      CHECK(identical(got.dx, wanted.dx));
      for (std::size_t l = 0; l < wanted.w.size(); ++l)
      {
        CHECK(identical(got.dw[l], wanted.dw[l]));
        CHECK(identical(got.db[l], wanted.db[l]));
      }
    });
}

TEST_CASE("all gradients agree with central differences of the loss")
{
  if (!fits(cube)) return;
  const std::vector<std::size_t> sizes{3, 5, 4, 2};
  const auto labels = classes(6, 2);
  const auto values = uniform<double>(6, 3, 1);
  constexpr double h = 0x1p-16;
  const auto worst = on_root(cube, [&](const auto& mesh) {
    Network<Cube3D> mlp{mesh, sizes, {.activation = gelu, .output = cubist::tanh, .seed = 5}};
    NetworkMatrix<Cube3D, Threads, double> x{scatter<Cube3D::Input>(mesh, values)};
    const auto loss = [&] {
      const auto& y = mlp.forward(x);
      auto dy = zeros_like(y);
      return std::pair{softmax_cross_entropy(y, labels, dy), dy};
    };
    std::vector<std::pair<double, std::size_t>>
        found;  // the largest error, and the number of elements
    const auto check = [&](const auto& value, const Global<double>& gradient) {
      auto global = gather(value);
      std::pair<double, std::size_t> f{0, 0};
      for (std::size_t i = 0; i < value.shape.rows; ++i)
        for (std::size_t j = 0; j < value.shape.cols; ++j)
        {
          const auto with = [&](double change) {
            auto changed = global;
            if (mesh.rank() == 0) changed(i, j) += change;
            scatter(changed, value);
            return loss().first;
          };
          const double difference = (with(h) - with(-h)) / (2 * h);
          if (mesh.rank() == 0) f.first = std::max(f.first, std::abs(difference - gradient(i, j)));
          ++f.second;
        }
      scatter(global, value);
      found.push_back(f);
    };
    const auto dx = gather(mlp.backward_with_input(loss().second));
    std::vector<Global<double>> gradients;
    for (const auto& p : mlp.parameters()) gradients.push_back(gather(p.gradient));
    check(x.view(), dx);
    for (std::size_t i = 0; i < gradients.size(); ++i)
      check(mlp.parameters()[i].value, gradients[i]);
    return found;
  });
  std::size_t checked = 0;
  for (const auto& [error, count] : worst)
  {
    CHECK(error < 1e-9);
    checked += count;
  }
  CHECK(checked == 6 * 3 + 3 * 5 + 5 + 5 * 4 + 4 + 4 * 2 + 2);
}

TEST_CASE("backward computes the same gradients without that of the input")
{
  for (const auto gathered : {Gathered::kept, Gathered::again})
    for (const auto method : {Method::direct, Method::collectives})
      for_each_place([&]<class S>(const Place<S>& place) {
        const auto gradients = on_root(place, [&](const auto& mesh) {
          Network<S> mlp{mesh, {7, 6, 5}, {.dropout = 0.5, .gathered = gathered, .method = method}};
          auto dy =
              zeros_like(mlp.forward(scatter<typename S::Input>(mesh, uniform<double>(9, 7, 1))));
          scatter(uniform<double>(9, 5, 2), dy.view());
          std::vector<Global<double>> all;
          const auto keep = [&] {
            for (const auto& p : mlp.parameters())
            {
              all.push_back(gather(p.gradient));
              mesh.engine().fill(p.gradient.valid(), 0.0);
            }
          };
          mlp.backward(dy);
          keep();
          (void)mlp.backward_with_input(dy);
          keep();
          return all;
        });
        CAPTURE(place.name());
        REQUIRE(gradients.size() == 8);
        for (std::size_t i = 0; i < 4; ++i) CHECK(identical(gradients[i], gradients[i + 4]));
      });
}

#if !CUBIST_SANITIZED  // counts of elements do not change under a sanitizer
TEST_CASE("backward sends what the gradient of the input needs only where it is asked for")
{
  using B = Counting<Threads>;
  const std::array<std::size_t, 3> sizes{16, 24, 32};
  const auto sent = on_ranks<B>(8, [&](B::Communicator& world) {
    const Mesh<Cube3D, B> mesh{world};
    MLP<Cube3D, B, double> mlp{mesh, {sizes.begin(), sizes.end()}, {.method = Method::collectives}};
    const auto& y = mlp.forward(scatter<Cube3D::Input>(mesh, uniform<double>(8, 16, 1)));
    const auto dy = zeros_like(y);
    const auto words = [&](auto call) {
      world.traffic().reset();
      call();
      return world.traffic().total().elements;
    };
    return std::array{words([&] { mlp.backward(dy); }),
                      words([&] { (void)mlp.backward_with_input(dy); })};
  });
  double more = 0;
  for (const auto& [without, with] : sent) more += static_cast<double>(with - without);
  const auto first = cost<Cube3D>({2, 2, 2}, {.m = 8, .n = sizes[1], .k = sizes[0]});
  CHECK(more == 8 * (first.backward.words() - first.backward_weight.words()));
  CHECK(more > 0);
}
#endif

TEST_CASE("parameters have names and shapes, and are the same on every scheme and mesh")
{
  const auto values = [](const auto& place) {
    return on_root(place, []<class S>(const Mesh<S, Threads>& mesh) {
      Network<S> mlp{mesh, {7, 11, 9, 5}, {.seed = 42}};
      return gathered(mlp);
    });
  };
  const auto wanted = values(single_rank);
  std::ostringstream list;
  for (const auto& [name, value] : wanted)
    list << name << ' ' << Shape{value.shape(0), value.shape(1)} << '\n';
  CHECK(list.str() == "layers.0.weight (7, 11)\nlayers.0.bias (1, 11)\n"
                      "layers.1.weight (11, 9)\nlayers.1.bias (1, 9)\n"
                      "layers.2.weight (9, 5)\nlayers.2.bias (1, 5)\n");
  for_each_place([&](const auto& place) {
    CAPTURE(place.name());
    const auto got = values(place);
    REQUIRE(got.size() == wanted.size());
    for (std::size_t i = 0; i < got.size(); ++i)
    {
      CHECK(got[i].name == wanted[i].name);
      CHECK(identical(got[i].value, wanted[i].value));
    }
  });

  const auto names = on_root(single_rank, [](const auto& mesh) {
    Network<Summa25D> mlp{mesh, {7, 11, 5}, {.bias = false}};
    std::string all;
    for (const auto& p : mlp.parameters()) all += p.name + " ";
    return all;
  });
  CHECK(names == "layers.0.weight layers.1.weight ");
}

TEST_CASE("every layer begins as the options say")
{
  const auto parameters = on_root(single_rank, [](const auto& mesh) {
    Network<Summa25D> mlp{
        mesh,
        {7, 11, 5},
        {.seed = 42, .initial_weights = Normal{.std = 0.5}, .initial_bias = Zeros{}}};
    return gathered(mlp);
  });
  for (std::size_t l = 0; l < 2; ++l)
  {
    const auto& w = parameters[2 * l].value;
    for (std::size_t i = 0; i < w.size(); ++i)
      CHECK(w.data()[i] == stream(42, Draw::weight, l).normal<double>(i, 0.5));
    for (const double b : parameters[2 * l + 1].value) CHECK(b == 0);
  }
}

TEST_CASE("a network with another's weights computes the same")
{
  if (!fits(cube)) return;
  const auto x = uniform<double>(rows, 7, 1);
  struct Outputs
  {
    Global<double> first, second, given;
  };
  const auto got = on_root(cube, [&](const auto& mesh) {
    const auto in = scatter<Cube3D::Input>(mesh, x);
    Network<Cube3D> first{mesh, {7, 11, 5}, {.seed = 1}};
    Network<Cube3D> second{mesh, {7, 11, 5}, {.seed = 2}};
    Outputs o;
    o.first = gather(first.forward(in));
    o.second = gather(second.forward(in));
    const auto from = first.parameters();
    const auto to = second.parameters();
    for (std::size_t i = 0; i < from.size(); ++i) scatter(gather(from[i].value), to[i].value);
    o.given = gather(second.forward(in));
    return o;
  });
  CHECK(difference(got.first, got.second) > 0.01);
  CHECK(identical(got.given, got.first));
}

TEST_CASE("dropout applies in training mode only, and differs from step to step")
{
  if (!fits(cube)) return;
  const auto x = uniform<double>(rows, 7, 1);
  struct Outputs
  {
    Global<double> without, first, second, eval, again;
    bool training_at_first = false;
  };
  const auto o = on_root(cube, [&](const auto& mesh) {
    const auto in = scatter<Cube3D::Input>(mesh, x);
    Network<Cube3D> without{mesh, {7, 11, 5}, {.activation = relu}};
    Network<Cube3D> mlp{mesh, {7, 11, 5}, {.activation = relu, .dropout = 0.5}};
    Outputs outputs;
    outputs.training_at_first = mlp.training();
    outputs.without = gather(without.forward(in));
    outputs.first = gather(mlp.forward(in));
    outputs.second = gather(mlp.forward(in));
    mlp.eval();
    outputs.eval = gather(mlp.forward(in));
    mlp.train();
    outputs.again = gather(mlp.forward(in));
    return outputs;
  });
  CHECK(o.training_at_first);
  CHECK(identical(o.eval, o.without));
  CHECK(difference(o.first, o.without) > 0.01);
  CHECK(difference(o.second, o.without) > 0.01);
  CHECK(difference(o.first, o.second) > 0.01);
  CHECK(difference(o.again, o.without) > 0.01);
  CHECK(difference(o.again, o.second) > 0.01);
}

TEST_CASE("backward drops the elements that the last forward dropped")
{
  // The second layer's weights are the unit matrix, and p = 1/2 scales by 2, so all is exact. Only
  // dropped elements of the output are zero.
  const auto positive = [](std::size_t m, std::size_t n, std::uint64_t seed) {
    auto x = integers<double>(m, n, seed);
    for (auto& v : x) v = std::abs(v) + 1;
    return x;
  };
  const auto w = positive(7, 6, 1);
  const auto unit =
      generate<double>(6, 6, [](std::size_t i, std::size_t j) { return i == j ? 1.0 : 0.0; });
  const auto x = positive(rows, 7, 2);
  const auto dy = integers<double>(rows, 6, 3);
  const auto z = product(x, w);
  struct Pass
  {
    Global<double> y, dw, dx;
  };
  for_each_place([&]<class S>(const Place<S>& place) {
    const auto passes = on_root(place, [&](const auto& mesh) {
      using Net = Network<S>;
      const typename Net::Activations in{scatter<typename S::Input>(mesh, x)};
      Net mlp{mesh, {7, 6, 6}, {.activation = identity, .dropout = 0.5, .bias = false}};
      const auto parameters = mlp.parameters();
      scatter(w, parameters[0].value);
      scatter(unit, parameters[1].value);
      auto d = zeros_like(mlp.forward(in));
      scatter(dy, d.view());
      const auto pass = [&](Global<double> y) {
        auto dx = gather(mlp.backward_with_input(d));
        return Pass{std::move(y), gather(parameters[0].gradient), std::move(dx)};
      };
      std::vector<Pass> all;
      all.push_back(pass(gather(mlp.forward(in))));
      all.push_back(pass(gather(mlp.forward(in))));
      // The mode during `forward` decides.
      auto y = gather(mlp.forward(in));
      mlp.eval();
      all.push_back(pass(std::move(y)));
      y = gather(mlp.forward(in));
      mlp.train();
      all.push_back(pass(std::move(y)));
      return all;
    });
    for (std::size_t p = 0; p < passes.size(); ++p)
    {
      const bool dropped = p < 3;
      // Where y is zero but z is not, the element was dropped.
      auto dz = dy;
      std::size_t drops = 0;
      std::size_t scaled = 0;
      for (std::size_t i = 0; i < z.size(); ++i)
      {
        const double factor = passes[p].y.data()[i] / z.data()[i];
        drops += factor == 0 ? 1 : 0;
        scaled += factor == 2 ? 1 : 0;
        dz.data()[i] *= factor;
      }
      CAPTURE(place.name(), p);
      CHECK((drops > z.size() / 4) == dropped);
      CHECK((scaled > z.size() / 4) == dropped);
      CHECK(identical(passes[p].dw, product(transposed(x), dz)));
      CHECK(identical(passes[p].dx, product(dz, transposed(w))));
    }
  });
}

TEST_CASE("output_dropout drops elements of the output while training, the same on every mesh")
{
  // Sums of integers are exact, and p = 1/2 scales by 2.
  const auto x = integers<double>(rows, 7, 1);
  const auto w = integers<double>(7, 6, 2);
  const auto dy = integers<double>(rows, 6, 3);
  const auto labels = classes(rows, 6);
  struct Passes
  {
    Global<double> first, dw, second, eval, resumed;
    double loss = 0;
    double loss_of_eval = 0;
  };
  const auto run = [&]<class S>(const Mesh<S, Threads>& mesh) {
    const MlpOptions options{.bias = false, .seed = 4, .output_dropout = 0.5};
    const auto make = [&] {
      Network<S> mlp{mesh, {7, 6}, options};
      scatter(w, mlp.parameters()[0].value);
      return mlp;
    };
    const typename Network<S>::Activations in{scatter<typename S::Input>(mesh, x)};
    Network<S> mlp = make();
    Network<S> other = make();
    Passes p;
    const auto& y = mlp.forward(in);
    p.first = gather(y);
    auto d = zeros_like(y);
    scatter(dy, d.view());
    mlp.backward(d);
    p.dw = gather(mlp.parameters()[0].gradient);
    // A network that continues from the first one's state gets the first one's next masks.
    State<double, typename Network<S>::Mesh> from, to;
    mlp.append_state(from);
    other.append_state(to);
    for (std::size_t i = 0; i < from.numbers.size(); ++i)
      *to.numbers[i].value = *from.numbers[i].value;
    p.resumed = gather(other.forward(in));
    p.second = gather(mlp.forward(in));
    p.loss = mlp.evaluate(in, labels).loss;
    mlp.eval();
    const auto& without = mlp.forward(in);
    p.eval = gather(without);
    p.loss_of_eval = softmax_cross_entropy(without, labels, d);
    return p;
  };
  const auto check_pass = [&](const Passes& p) {
    CHECK(identical(p.eval, product(x, w)));
    CHECK(p.loss == p.loss_of_eval);
    auto masked = dy;
    std::size_t dropped = 0;
    std::size_t others = 0;
    for (std::size_t i = 0; i < masked.size(); ++i)
    {
      const double y = p.first.data()[i];
      const double z = p.eval.data()[i];
      dropped += y == 0 && z != 0 ? 1 : 0;
      others += y != 0 && y != 2 * z ? 1 : 0;
    }
    CHECK(dropped > masked.size() / 4);
    CHECK(others == 0);
    CHECK(difference(p.first, p.second) > 0);
    CHECK(identical(p.resumed, p.second));
    auto mask = generate<double>(rows, 6, [](std::size_t, std::size_t) { return 1.0; });
    on_root(single_rank, [&](const auto& mesh) {
      auto m = scatter<Summa25D::Output>(mesh, mask);
      Dropout{0.5, 4, 0}.apply(m, 1);
      mask = gather(m);
      return 0;
    });
    for (std::size_t i = 0; i < masked.size(); ++i) masked.data()[i] *= mask.data()[i];
    CHECK(identical(p.dw, product(transposed(x), masked)));
  };
  const auto wanted = on_root(single_rank, run);
  check_pass(wanted);
  for_each_place([&](const auto& place) {
    CAPTURE(place.name());
    const auto got = on_root(place, run);
    check_pass(got);
    CHECK(identical(got.first, wanted.first));
    CHECK(identical(got.second, wanted.second));
  });
}

TEST_CASE("a score is printed as its loss and accuracy")
{
  std::ostringstream out;
  out << Score{0.25, 0.5};
  CHECK(out.str() == "loss 0.25  accuracy 0.5");
}

TEST_CASE("evaluate gives loss and accuracy without dropout, and leaves the mode as it is")
{
  if (!fits(cube)) return;
  const auto x = uniform<double>(rows, 7, 1);
  const auto labels = classes(rows, 5);
  struct Found
  {
    Score training, eval;
    double loss = 0;
    double accuracy = 0;
    bool modes = false;
    bool mode_after_error = false;
  };
  const auto all = on_mesh(cube, [&](const auto& mesh) {
    const auto in = scatter<Cube3D::Input>(mesh, x);
    Network<Cube3D> mlp{mesh, {7, 11, 5}, {.dropout = 0.5}};
    Found f;
    f.training = mlp.evaluate(in, labels);
    f.modes = mlp.training();
    try
    {
      const auto wrong = scatter<Cube3D::Input>(mesh, uniform<double>(rows, 6, 1));
      (void)mlp.evaluate(wrong, labels);
    }
    catch (const ShapeError&)
    {
      f.mode_after_error = mlp.training();
    }
    mlp.eval();
    f.eval = mlp.evaluate(in, labels);
    f.modes = f.modes && !mlp.training();
    const auto& y = mlp.forward(in);
    auto dy = zeros_like(y);
    f.loss = softmax_cross_entropy(y, labels, dy);
    f.accuracy = accuracy(y, labels);
    return f;
  });
  for (const auto& f : all)
  {
    CHECK(f.training.loss == f.loss);
    CHECK(f.eval.loss == f.loss);
    CHECK(f.training.accuracy == f.accuracy);
    CHECK(f.eval.accuracy == f.accuracy);
    CHECK(f.loss == all[0].loss);
    CHECK(f.modes);
    CHECK(f.mode_after_error);
  }
}

TEST_CASE("evaluating while training does not change the training")
{
  if (!fits(two_two_two)) return;
  const auto train = [](bool evaluate) {
    return on_root(two_two_two, [&](const auto& mesh) {
      Network<Summa25D> mlp{mesh, {7, 11, 5}, {.dropout = 0.5}};
      const auto parameters = mlp.parameters();
      Sgd<double, Network<Summa25D>::Mesh> optimizer{parameters, {.learning_rate = 0.5}};
      const auto x = scatter<Summa25D::Input>(mesh, uniform<double>(rows, 7, 1));
      const auto other = scatter<Summa25D::Input>(mesh, uniform<double>(5, 7, 2));
      const auto labels = classes(rows, 5);
      const auto other_labels = classes(5, 5);
      std::vector<double> curve;
      for (int i = 0; i < 4; ++i)
      {
        if (evaluate) (void)mlp.evaluate(other, other_labels);
        const auto& y = mlp.forward(x);
        auto dy = zeros_like(y);
        curve.push_back(softmax_cross_entropy(y, labels, dy));
        mlp.backward(dy);
        checked_step(optimizer, parameters);
      }
      return curve;
    });
  };
  CHECK(train(true) == train(false));
}

TEST_CASE("an evaluation between forward and backward changes no gradient")
{
  if (!fits(cube)) return;
  const auto [again, wanted, message] = on_root(cube, [&](const auto& mesh) {
    Network<Cube3D> mlp{mesh, {7, 11, 5}, {.dropout = 0.5}};
    const auto in = scatter<Cube3D::Input>(mesh, uniform<double>(rows, 7, 1));
    const auto other = scatter<Cube3D::Input>(mesh, uniform<double>(rows, 7, 2));
    const auto few = scatter<Cube3D::Input>(mesh, uniform<double>(rows - 3, 7, 2));
    mlp.eval();
    auto dy = zeros_like(mlp.forward(in));
    scatter(uniform<double>(rows, 5, 3), dy.view());
    auto first = gather(mlp.backward_with_input(dy));
    std::vector<Global<double>> all;
    for (const auto* x : {&other, &few})
    {
      (void)mlp.forward(in);
      (void)mlp.evaluate(*x, classes(x->rows(), 5));
      all.push_back(gather(mlp.backward_with_input(dy)));
    }
    // An evaluation after a backward pass uses the memory of that step's forward pass.
    (void)mlp.evaluate(other, classes(rows, 5));
    auto error = message_of<ArgumentError>([&] { mlp.backward(dy); });
    return std::tuple{std::move(all), std::move(first), error};
  });
  for (const auto& dx : again) CHECK(identical(dx, wanted));
  CHECK(mentions(message, "generation that has used the memory of the last forward"));
}

TEST_CASE("several forward passes may wait for their backward passes, in any order")
{
  if (!fits(cube)) return;
  for (const std::size_t recompute : {0U, 1U})
  {
    CAPTURE(recompute);
    const auto [together, alone] = on_root(cube, [&](const auto& mesh) {
      using Net = Network<Cube3D>;
      const MlpOptions options{.dropout = 0.3, .recompute = recompute};
      std::vector<Global<double>> both[2];
      for (const bool waits : {true, false})
      {
        Net mlp{mesh, {7, 11, 5}, options};
        typename Net::Kept kept[2];
        const auto forward = [&](std::size_t i) {
          const auto x = scatter<Cube3D::Input>(mesh, uniform<double>(rows + 2 * i, 7, i));
          return zeros_like(mlp.forward(x, kept[i]));
        };
        const auto backward = [&](std::size_t i, auto dy) {
          scatter(uniform<double>(rows + 2 * i, 5, 7 + i), dy.view());
          auto dx = gather(mlp.backward_with_input(dy, kept[i]));
          auto& all = both[waits ? 0 : 1];
          all.push_back(dx);
          for (const auto& p : mlp.parameters()) all.push_back(gather(p.gradient));
        };
        if (waits)
        {
          auto first = forward(0);
          auto second = forward(1);
          backward(0, first);
          backward(1, second);
        }
        else
          for (const std::size_t i : {0U, 1U}) backward(i, forward(i));
      }
      return std::pair{both[0], both[1]};
    });
    REQUIRE(together.size() == alone.size());
    for (std::size_t i = 0; i < alone.size(); ++i) CHECK(identical(together[i], alone[i]));
  }
}

TEST_CASE("a step in one call has the loss and the gradients of forward, loss and backward")
{
  const auto labels = classes(rows, 5);
  for (const std::vector<std::size_t>& sizes : {std::vector<std::size_t>{7, 5}, {7, 6, 5}})
    for_each_place([&]<class S>(const Place<S>& place) {
      struct Found
      {
        double entropy, error;
        Global<double> y;
        std::vector<Global<double>> gradients;
      };
      const auto [wanted, got] = on_root(place, [&](const auto& mesh) {
        Network<S> mlp{mesh, sizes, {.activation = gelu}};
        const auto parameters = mlp.parameters();
        const auto x = scatter<typename S::Input>(mesh, uniform<double>(rows, 7, 1));
        const auto target = mlp.scatter_target(uniform<double>(rows, 5, 2));
        Found calls{}, one_call{};
        const auto keep = [&](Found& found) {
          for (const auto& p : parameters) found.gradients.push_back(gather(p.gradient));
        };
        const auto& y = mlp.forward(x);
        calls.y = gather(y);
        auto dy = zeros_like(y);
        calls.entropy = softmax_cross_entropy(y, labels, dy);
        scale_gradient(dy, 3);
        mlp.backward(dy);
        keep(calls);
        calls.error = mean_squared_error(y, target, dy);
        mlp.backward(dy);
        keep(calls);

        one_call.y = gather(mlp.predict(x));
        one_call.entropy = mlp.compute_gradients(x, labels, 3);
        keep(one_call);
        one_call.error = mlp.compute_gradients(typename Network<S>::Activations{x}, target);
        keep(one_call);
        return std::pair{calls, one_call};
      });
      CAPTURE(place.name(), sizes.size());
      CHECK(got.entropy == wanted.entropy);
      CHECK(got.error == wanted.error);
      CHECK(identical(got.y, wanted.y));
      REQUIRE(got.gradients.size() == wanted.gradients.size());
      for (std::size_t i = 0; i < wanted.gradients.size(); ++i)
        CHECK(identical(got.gradients[i], wanted.gradients[i]));
    });
}

TEST_CASE("labels, targets and inputs of a step in one call that do not fit are refused")
{
  if (!fits(cube)) return;
  using Net = Network<Cube3D>;
  const auto messages = on_root(cube, [](const auto& mesh) {
    Net mlp{mesh, {7, 6, 5}};
    const typename Net::Input x{mesh, {3, 7}}, wide{mesh, {3, 8}};
    std::vector<std::string> all;
    const auto refused = [&](auto f) { all.push_back(message_of<ShapeError>(f)); };
    refused([&] { (void)mlp.compute_gradients(x, classes(4, 5)); });
    refused([&] { (void)mlp.evaluate(x, classes(4, 5)); });
    refused([&] { (void)mlp.compute_gradients(x, typename Net::Input{mesh, {4, 5}}); });
    refused([&] {
      (void)mlp.compute_gradients(
          x, DistMatrix<double, Cube3D::Output, typename Net::Mesh>{mesh, {3, 5}});
    });
    refused([&] { (void)mlp.predict(wide); });
    return all;
  });
  CHECK(mentions(messages[0], "4 labels"));
  CHECK(mentions(messages[1], "4 labels"));
  CHECK(mentions(messages[2], "target of (4, 5)", "outputs of (3, 5)"));
  CHECK(mentions(messages[3], "after an odd number of layers"));
  CHECK(mentions(messages[4], "X is (3, 8)"));
}

TEST_CASE("forward copies an X that the program keeps, and takes one that it moves")
{
  if (!fits(cube)) return;
  const auto [gradients, left] = on_root(cube, [](const auto& mesh) {
    Network<Cube3D> mlp{mesh, {7, 11, 5}};
    const auto make = [&] { return scatter<Cube3D::Input>(mesh, uniform<double>(rows, 7, 1)); };
    std::vector<std::vector<Global<double>>> all;
    const auto backward = [&](const auto& dy) {
      mlp.backward(dy);
      auto& found = all.emplace_back();
      for (const auto& p : mlp.parameters()) found.push_back(gather(p.gradient));
    };
    auto x = make(), given = make();
    NetworkMatrix<Cube3D, Threads, double> wrapped{make()};
    const auto dy = mlp.forward(x);
    x.generate([](std::size_t, std::size_t) { return 7.0; });  // the network has a copy
    backward(dy);
    mlp.forward(std::move(given));
    backward(dy);
    mlp.forward(std::move(wrapped));
    backward(dy);
    mlp.forward(std::as_const(x));
    return std::pair{all, std::array{x.has_elements(), given.has_elements()}};
  });
  CHECK(left == std::array{true, false});
  for (const auto& g : gradients)
    for (std::size_t i = 0; i < g.size(); ++i) CHECK(identical(g[i], gradients[0][i]));
}

TEST_CASE("each forward pass may have another number of rows, or other padding")
{
  if (!fits(cube)) return;
  const auto x = integers<double>(rows, 7, 1);
  const auto few = generate<double>(3, 7, [&](std::size_t i, std::size_t j) { return x(i, j); });
  const auto [all, first, again, padded, dx] = on_root(cube, [&](const auto& mesh) {
    Network<Cube3D> mlp{mesh, {7, 11, 5}, {.activation = relu}};
    for (const auto& p : mlp.parameters())
      scatter(integers<double>(p.value.shape.rows, p.value.shape.cols, 4), p.value);
    const auto many = gather(mlp.forward(scatter<Cube3D::Input>(mesh, x)));
    const auto some = gather(mlp.forward(scatter<Cube3D::Input>(mesh, few)));
    const auto y = mlp.forward(scatter<Cube3D::Input>(mesh, x));
    const auto of_y = gather(mlp.backward_with_input(y));
    typename Network<Cube3D>::Activations::Even wide{
        mesh, {rows, 7}, {6 * mesh.quantum(), mesh.quantum()}};
    scatter(x, wide.view());
    const auto z = mlp.forward(wide);
    return std::tuple{many, some, gather(y), gather(z),
                      std::pair{of_y, gather(mlp.backward_with_input(z))}};
  });
  CHECK(identical(again, all));
  CHECK(identical(padded, all));
  CHECK(identical(dx.first, dx.second));
  CHECK(identical(first, generate<double>(3, 5, [&, y = all](std::size_t i, std::size_t j) {
                    return y(i, j);
                  })));
}

TEST_CASE("a network's results do not depend on the shapes of the calls before")
{
  // Fewer rows, more rows, and as many as at first; network and mesh keep their workspaces.
  const std::vector<std::size_t> batches{13, 5, 21, 1, 13};
  for_each_place([&](const auto& place) {
    for (const Method method : {Method::automatic, Method::collectives})
    {
      CAPTURE(place.name(), method == Method::collectives);
      const auto run = [&](std::size_t first, std::size_t last) {
        return on_root<Threads>(place, [&](const auto& mesh) {
          using S = typename std::decay_t<decltype(mesh)>::Scheme;
          Network<S> mlp{
              mesh, {7, 11, 5}, {.activation = gelu, .dropout = 0.2, .seed = 3, .method = method}};
          for (const auto& number : state_of(mlp).numbers)
            if (number.name == "forwards") *number.value = first;
          std::vector<Global<double>> all;
          for (std::size_t k = first; k < last; ++k)
          {
            const auto labels = classes(batches[k], 5);
            const auto x = scatter<typename S::Input>(mesh, uniform<double>(batches[k], 7, 1));
            const auto& y = mlp.forward(x);
            auto dy = zeros_like(y);
            all.push_back({{mean_squared_error(y, y, dy), accuracy(y, labels)}});
            all.push_back({{softmax_cross_entropy(y, labels, dy)}});
            all.push_back(gather(y));
            all.push_back(gather(mlp.backward_with_input(dy)));
            for (const auto& p : mlp.parameters()) all.push_back(gather(p.gradient));
            check_replicas(mlp.parameters());
            all.push_back({{mlp.evaluate(x, labels).loss}});
          }
          return all;
        });
      };
      const auto kept = run(0, batches.size());
      std::size_t at = kept.size() / batches.size();
      for (std::size_t k = 1; k < batches.size(); ++k)
      {
        CAPTURE(batches[k]);
        const auto fresh = run(k, k + 1);
        REQUIRE(fresh.size() * batches.size() == kept.size());
        for (const auto& matrix : fresh) CHECK(identical(kept[at++], matrix));
      }
    }
  });
}

TEST_CASE("the next forward overwrites what forward returned, but not a copy of it")
{
  if (!fits(cube)) return;
  const auto [before, copied, after] = on_root(cube, [&](const auto& mesh) {
    Network<Cube3D> mlp{mesh, {7, 5}};
    const auto& y = mlp.forward(scatter<Cube3D::Input>(mesh, uniform<double>(rows, 7, 1)));
    const auto copy = y;
    const auto first = gather(y);
    mlp.forward(scatter<Cube3D::Input>(mesh, uniform<double>(rows, 7, 2)));
    return std::tuple{first, gather(copy), gather(y)};
  });
  CHECK(identical(copied, before));
  CHECK(difference(after, before) > 0.01);
}

TEST_CASE("the shapes of the 2.5D example")
{
  if (!fits(two_two_two)) return;
  const auto shapes = on_mesh(two_two_two, [](const auto& mesh) {
    const auto x = scatter<Summa25D::Input>(mesh, uniform<float>(16, 256, 1));
    Network<Summa25D, float> first{mesh, {256, 1024}};
    Network<Summa25D, float> both{mesh, {256, 1024, 256}};
    const auto parameters = both.parameters();
    std::vector<Shape> found;
    const auto add = [&](const auto& local) {
      found.push_back({local.shape()[0], local.shape()[1]});
    };
    found.push_back(parameters[0].value.valid().shape());
    found.push_back(parameters[2].value.valid().shape());
    add(x.local());
    add(first.forward(x).local());
    add(both.forward(x).local());
    return found;
  });
  for (const auto& s : shapes)
    CHECK(s == std::vector<Shape>{{128, 512}, {512, 128}, {4, 128}, {4, 512}, {4, 128}});
}

TEST_CASE("MindSpore's sample on a grid equals that of one rank, and has its shapes")
{
  // ones(1024, 256) times (256, 512), ReLU, times (512, 256)
  const auto x = generate<double>(1024, 256, [](std::size_t, std::size_t) { return 1.0; });
  const auto first = integers<double>(256, 512, 1);
  const auto second = integers<double>(512, 256, 2);
  const auto run = [&]<class S>(const Mesh<S, Threads>& mesh) {
    Network<S> mlp{mesh, {256, 512, 256}, {.activation = relu, .bias = false}};
    const auto parameters = mlp.parameters();
    scatter(first, parameters[0].value);
    scatter(second, parameters[1].value);
    const auto in = scatter<typename S::Input>(mesh, x);
    const auto& y = mlp.forward(in);
    const std::vector<Shape> blocks{in.block().valid(), parameters[0].value.valid().shape(),
                                    parameters[1].value.valid().shape(), y.block().valid()};
    return std::pair{gather(y), blocks};
  };
  const auto wanted = on_root(single_rank, run).first;
  const auto got = on_mesh(Place<Grid2D>{8, {2, 4}}, run);
  CHECK(identical(got[0].first, wanted));
  for (const auto& [_, blocks] : got)
    CHECK(blocks == std::vector<Shape>{{1024, 32}, {128, 128}, {128, 128}, {1024, 32}});
}

#if !CUBIST_SANITIZED  // counts of elements do not change under a sanitizer
TEST_CASE("every training step sends as many elements")
{
  if (!fits(cube)) return;
  const auto sent = [](const auto& place) {
    return on_mesh<Counting<Threads>>(place, [&](const auto& mesh) {
      std::vector<std::uint64_t> words;
      std::uint64_t before = 0;
      losses<double>(mesh, two_layers, [&](int, auto& optimizer, const auto& parameters) {
        optimizer.step(parameters);
        const auto all = mesh.world().traffic().total().elements;
        words.push_back(all - before);
        before = all;
      });
      words.erase(words.begin());  // it includes scattering x
      return words;
    });
  };
  const auto check = [&](const auto& place) {
    CAPTURE(place.name());
    for (const auto& words : sent(place))
    {
      CHECK(words.front() > 0);
      CHECK(words == std::vector<std::uint64_t>(words.size(), words.front()));
    }
  };
  check(two_two_two);
  check(cube);
}
#endif

// Options that are not here have types with only valid values: flags, seeds, enumerators, the steps
// of NumericsMonitorOptions, CheckpointOptions::keep. optimizer_test.cpp has those of optimizers.
TEST_CASE("sizes and options of layers that are out of range are refused")
{
  using M = AxisMesh<Summa25D::Axes, Threads>;
  using Sizes = std::vector<std::size_t>;
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  constexpr double infinity = std::numeric_limits<double>::infinity();
  constexpr std::size_t large = std::size_t{1} << 33;
  constexpr std::size_t layers = std::size_t{1} << 16;
  constexpr std::uint64_t steps = std::uint64_t{1} << 40;
  const auto network = [](const Sizes& sizes, const MlpOptions& options) {
    return [=](const M& mesh) { Network<Summa25D>{mesh, sizes, options}; };
  };
  const auto linear = [](std::size_t in, std::size_t out, std::size_t index) {
    return [=](const M& mesh) {
      Linear<Summa25D, Threads, double>{mesh, in, out, {.index = index}};
    };
  };
  const auto dropout = [](double p, std::size_t layer, std::uint64_t step) {
    return [=](const M& mesh) {
      DistMatrix<double, Summa25D::Input, M> x{mesh, {3, 4}};
      Dropout{p, 0, layer}.apply(x, step);
    };
  };
  const auto scaled = [](double scale) {
    return [=](const M& mesh) {
      DistMatrix<double, Summa25D::Input, M> x{mesh, {3, 4}};
      softmax(x, x, scale);
    };
  };
  struct Row
  {
    std::function<void(const M&)> make;
    std::string got, use;  // parts of the error; empty if there is none
  };
  std::vector<Row> table{
      {network({}, {}), "got 0 sizes", "give the sizes of its input"},
      {network({7}, {}), "got 1 sizes", "give the sizes of its input"},
      {network({7, 0, 5}, {}), "from 7 to 0", "at least one"},
      {network({0, 5}, {}), "from 0 to 5", "at least one"},
      {network({large, large}, {}), "(8589934592, 8589934592)", "64 bits"},
      {network({7, static_cast<std::size_t>(-1)}, {}), "18446744073709551615", "64 bits"},
      {network({7, 5}, {}), "", ""},
      {network({1, 1, 1}, {.dropout = 0.99}), "", ""},
      {network({7, 5}, {.initial_weights = Normal{-1}}), "got a standard deviation of -1",
       "not negative"},
      {network({7, 5}, {.initial_bias = Normal{infinity}}), "got a standard deviation of inf",
       "use a finite number"},
      {network({7, 5}, {.initial_weights = Uniform{nan}}), "got a bound of nan",
       "use a finite number"},
      {network({7, 5}, {.initial_weights = Normal{0}, .initial_bias = Uniform{0}}), "", ""},
      {linear(0, 5, 0), "from 0 to 5", "at least one"},
      {linear(5, 0, 0), "from 5 to 0", "at least one"},
      {linear(5, 1, layers), "got layer 65536", "below 2^16"},
      {linear(5, 1, layers - 1), "", ""},
      {dropout(0.5, layers, 1), "got layer 65536", "below 2^16"},
      {dropout(0.5, layers - 1, steps), "step 1099511627776", "below 2^40"},
      {dropout(0.5, layers - 1, steps - 1), "", ""},
      {dropout(0, 0, 0), "", ""},
      {scaled(nan), "got a scale of nan", "use a finite scale"},
      {scaled(-infinity), "got a scale of -inf", "use a finite scale"},
      {scaled(-2), "", ""}};
  for (const double p : {-0.1, 1.0, 7.0, nan, infinity})
    for (const auto& make : std::vector<std::function<void(const M&)>>{
             network({7, 5}, {.dropout = p}), network({7, 6, 5}, {.dropout = p}),
             network({7, 5}, {.output_dropout = p}), dropout(p, 0, 1)})
      table.push_back({make, "got a dropout probability of", "use a number in [0, 1)"});
  for (const auto& row : table)
  {
    const std::string message = message_of<Error>([&] {
      on_mesh(single_rank, [&](const auto& mesh) {
        row.make(mesh);
        return 0;
      });
    });
    CAPTURE(row.got, message);
    CHECK((row.got.empty() ? message.empty() : mentions(message, row.got, row.use)));
  }
}

TEST_CASE("backward without a successful forward is refused")
{
  if (!fits(single_layer)) return;
  const auto run = [](bool after_failure) {
    return message_of<ArgumentError>([&] {
      on_mesh(single_layer, [&](const auto& mesh) {
        using Net = Network<Summa25D>;
        using Matrix = DistMatrix<double, Summa25D::Input, Net::Mesh>;
        Net mlp{mesh, {7, 6, 5}};
        if (after_failure)
        {
          mlp.forward(Matrix{mesh, {3, 7}});
          try
          {
            mlp.forward(Matrix{mesh, {3, 8}});
          }
          catch (const ShapeError&)
          {
          }
        }
        mlp.backward(Matrix{mesh, {3, 5}});
        return 0;
      });
    });
  };
  CHECK(mentions(run(false), "before any forward", "call forward first"));
  CHECK(mentions(run(true), "one that failed", "call forward first"));
}

TEST_CASE("a target is cut as the output, after any number of layers")
{
  if (!fits(cube)) return;
  const auto wanted = uniform<float>(13, 5, 1);
  for (const std::vector<std::size_t>& sizes : {std::vector<std::size_t>{7, 5}, {7, 6, 5}})
  {
    const auto [block, output, target] = on_root(cube, [&](const auto& mesh) {
      Network<Cube3D> mlp{mesh, sizes};
      const auto t = mlp.scatter_target(wanted);
      const auto& y = mlp.forward(scatter<Cube3D::Input>(mesh, uniform<double>(13, 7, 2)));
      auto dy = zeros_like(y);
      (void)mean_squared_error(y, t, dy);
      return std::tuple{t.block(), y.block(), gather(t)};
    });
    CAPTURE(sizes.size());
    CHECK(block == output);
    CHECK(identical(target, Global<double>{wanted}));
  }
}

TEST_CASE("matrices of wrong sizes or layouts are refused")
{
  if (!fits(cube)) return;
  const std::vector<std::size_t> sizes{7, 6, 5};
  const auto run = [&]<class LX, class LY>(Layout<LX, LY>*, Shape x, Shape dy) {
    return message_of<ShapeError>([&] {
      on_mesh(cube, [&](const auto& mesh) {
        using Net = Network<Cube3D>;
        Net mlp{mesh, sizes, {.output = sigmoid}};
        mlp.forward(DistMatrix<double, Cube3D::Input, Net::Mesh>{mesh, x});
        mlp.backward(DistMatrix<double, Layout<LX, LY>, Net::Mesh>{mesh, dy});
        return 0;
      });
    });
  };
  Cube3D::Input* even = nullptr;
  Cube3D::Output* odd = nullptr;
  CHECK(run(even, {13, 7}, {13, 5}) == "");
  CHECK(mentions(run(even, {13, 8}, {13, 5}), "X is (13, 8)", "(13, 7)"));
  CHECK(run(even, {13, 7}, {13, 4}) != "");
  CHECK(run(even, {13, 7}, {20, 5}) != "");
  CHECK(mentions(run(odd, {13, 7}, {13, 5}), "got a matrix with " + Cube3D::Output::to_string(),
                 "one with " + Cube3D::Input::to_string(), "after an odd number of layers"));

  const auto input = [&] {
    on_mesh(cube, [&](const auto& mesh) {
      using Net = Network<Cube3D>;
      Net mlp{mesh, sizes};
      const Net::Activations x{DistMatrix<double, Cube3D::Output, Net::Mesh>{mesh, {13, 7}}};
      mlp.forward(x);
      return 0;
    });
  };
  CHECK(mentions(message_of<ShapeError>(input), Cube3D::Output::to_string(),
                 Cube3D::Input::to_string()));
}

}  // namespace cubist::test::mlp_test
