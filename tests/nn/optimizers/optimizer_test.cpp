// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/nn/dense/linear.hpp"
#include "cubist/nn/optimizers/optimizer.hpp"

#include "checked_step.hpp"
#include "nn.hpp"

namespace cubist::test::optimizer_test
{

TEST_CASE("a step of gradient descent moves a weight against its gradient")
{
  const auto w = on_root<Threads>(one_rank, [](const auto& mesh) {
    auto value = scatter<Summa2D::Weight>(mesh, Global<double>{{1, 2}});
    auto slope = scatter<Summa2D::Weight>(mesh, Global<double>{{2, -4}});
    const Parameters<double, AxisMesh<Summa2D::Axes, Threads>> parameters{
        {"weight", value.view(), slope.view()}};
    Sgd{parameters, {.learning_rate = 0.25}}.step(parameters);
    return gather(value);
  });
  CHECK(identical(w, Global<double>{{0.5, 3}}));
}

constexpr int steps = 6;
/// The factors by which each step multiplies its gradients; 1 is the default.
constexpr std::array<double, steps> factors{1, 0.25, 3, 1, 0.5, 1e-3};
constexpr Shape weight{7, 5};
constexpr Shape bias{1, 5};

template <class T>
Global<T> first_value(Shape s)
{
  return uniform<T>(s.rows, s.cols, 10 + s.rows);
}
template <class T>
Global<T> gradient(Shape s, int step)
{
  return uniform<T>(s.rows, s.cols, 100 * static_cast<std::uint64_t>(step) + s.rows);
}

/// A weight and a bias, cut like those of a network, with given gradients.
template <class S, class T>
class TwoParameters
{
 public:
  using M = AxisMesh<typename S::Axes, Threads>;

  /// @param decays  whether the bias decays
  explicit TwoParameters(const M& mesh, bool decays = true)
      : w_{scatter<typename S::Weight>(mesh, first_value<T>(weight))},
        dw_{w_},
        b_{scatter<RowVector<typename S::Output>>(mesh, first_value<T>(bias))},
        db_{b_},
        decays_{decays}
  {
  }
  void set_gradients(int step)
  {
    scatter(gradient<T>(weight, step), dw_);
    scatter(gradient<T>(bias, step), db_);
  }
  [[nodiscard]] Parameters<T, M> parameters()
  {
    return {{"weight", w_.view(), dw_.view(), {}}, {"bias", b_.view(), db_.view(), {}, decays_}};
  }
  [[nodiscard]] std::pair<Global<T>, Global<T>> gathered() const
  {
    return {gather(w_), gather(b_)};
  }
  [[nodiscard]] Padding padded() const
  {
    Padding p = padding(w_.view());
    p += padding(b_.view());
    return p;
  }

 private:
  DistMatrix<T, typename S::Weight, M> w_, dw_;
  DistMatrix<T, RowVector<typename S::Output>, M> b_, db_;
  bool decays_;
};

template <template <class, class> class Optimizer, class T, class S>
using On = Optimizer<T, typename TwoParameters<S, T>::M>;

/// Takes a step with the gradients and the factor of this step number.
template <class Two, class O>
void take_step(Two& two, O& optimizer, int step)
{
  two.set_gradients(step);
  const double factor = factors[static_cast<std::size_t>(step)];
  if (factor == 1)
    optimizer.step(two.parameters());
  else
    optimizer.step(two.parameters(), factor);
}

/// Takes all steps, with learning rates halved after the third, and returns the two parameters.
template <template <class, class> class Optimizer, class T, class S, class Options>
std::pair<Global<T>, Global<T>> stepped(const Place<S>& place, const Options& options,
                                        bool bias_decays = true)
{
  return on_root(place, [&](const auto& mesh) {
    TwoParameters<S, T> two{mesh, bias_decays};
    On<Optimizer, T, S> optimizer{two.parameters(), options};
    for (int step = 0; step < steps; ++step)
    {
      const double rate = options.learning_rate;
      if (step == 3 && options.groups.empty()) optimizer.options().learning_rate = rate / 2;
      if (step == 3) optimizer.set_learning_rate(rate / 2, rate);
      take_step(two, optimizer, step);
    }
    return two.gathered();
  });
}

/// Takes all steps serially, where update(w, g, step, rate, a, b) updates one element, whose state
/// is a and b.
template <class F>
Global<double> serially(Shape shape, double rate, F update)
{
  auto w = first_value<double>(shape);
  auto a = generate<double>(shape.rows, shape.cols, [](std::size_t, std::size_t) { return 0.0; });
  auto b = a;
  for (int step = 0; step < steps; ++step)
  {
    if (step == 3) rate /= 2;
    const auto g = gradient<double>(shape, step);
    for (std::size_t i = 0; i < w.size(); ++i)
      update(w.data()[i], factors[static_cast<std::size_t>(step)] * g.data()[i], step, rate,
             a.data()[i], b.data()[i]);
  }
  return w;
}

/// Checks on every place that the parameters equal those of serial updates.
template <template <class, class> class Optimizer, class Options, class F>
void equals_serial(const Options& options, F update)
{
  const auto w = serially(weight, options.learning_rate, update);
  const auto b = serially(bias, options.learning_rate, update);
  CHECK(difference(w, first_value<double>(weight)) > options.learning_rate);
  for_each_place([&](const auto& place) {
    CAPTURE(place.name());
    const auto got = stepped<Optimizer, double>(place, options);
    CHECK(difference(got.first, w) < 1e-14);
    CHECK(difference(got.second, b) < 1e-14);
  });
}

static void sgd(double momentum)
{
  equals_serial<Sgd>(SgdOptions{.learning_rate = 0.2, .momentum = momentum},
                     [=](double& w, double g, int, double rate, double& velocity, double&) {
                       velocity = momentum * velocity + g;
                       w -= rate * velocity;
                     });
}

TEST_CASE("Sgd equals serial updates") { sgd(0); }

TEST_CASE("Sgd with momentum equals serial updates") { sgd(0.9); }

// Algorithm 1 of Adam, and algorithm 2 of AdamW with a constant schedule of 1.
static void adam_update(const AdamOptions& o, double decay, double& w, double g, int step,
                        double rate, double& m, double& v)
{
  m = o.beta1 * m + (1 - o.beta1) * g;
  v = o.beta2 * v + (1 - o.beta2) * g * g;
  const double mean = m / (1 - std::pow(o.beta1, step + 1));
  const double square = v / (1 - std::pow(o.beta2, step + 1));
  w -= rate * (mean / (std::sqrt(square) + o.epsilon) + decay * w);
}

const AdamOptions adam_options{
    .learning_rate = 0.05, .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-3, .weight_decay = 0.3};

TEST_CASE("Adam equals serial updates, and does not decay weights")
{
  equals_serial<Adam>(adam_options,
                      [](double& w, double g, int step, double rate, double& m, double& v) {
                        adam_update(adam_options, 0, w, g, step, rate, m, v);
                      });
}

TEST_CASE("AdamW equals serial updates")
{
  equals_serial<AdamW>(
      adam_options, [](double& w, double g, int step, double rate, double& m, double& v) {
        adam_update(adam_options, adam_options.weight_decay, w, g, step, rate, m, v);
      });
}

TEST_CASE("a group of parameters has its own learning rate and decay")
{
  // The first group that names a parameter is its group. All rates are halved after three steps.
  AdamOptions options = adam_options;
  options.groups = {{.names = {"b*"}, .learning_rate = 0.02, .weight_decay = 0.1},
                    {.names = {"*"}, .weight_decay = 0.7}};
  const auto adam = [](double decay) {
    return [decay](double& w, double g, int step, double rate, double& m, double& v) {
      adam_update(adam_options, decay, w, g, step, rate, m, v);
    };
  };
  const SgdOptions sgd{.learning_rate = 0.2,
                       .momentum = 0.9,
                       .groups = {{.names = {"weight"}, .learning_rate = 0.03}}};
  const auto sgd_update = [](double& w, double g, int, double rate, double& velocity, double&) {
    velocity = 0.9 * velocity + g;
    w -= rate * velocity;
  };
  for_each_place([&](const auto& place) {
    CAPTURE(place.name());
    const auto with_adam = stepped<AdamW, double>(place, options);
    CHECK(difference(with_adam.first, serially(weight, 0.05, adam(0.7))) < 1e-14);
    CHECK(difference(with_adam.second, serially(bias, 0.02, adam(0.1))) < 1e-14);
    const auto with_sgd = stepped<Sgd, double>(place, sgd);
    CHECK(difference(with_sgd.first, serially(weight, 0.03, sgd_update)) < 1e-14);
    CHECK(difference(with_sgd.second, serially(bias, 0.2, sgd_update)) < 1e-14);
  });
}

TEST_CASE("AdamW does not decay a bias or a norm of a transformer, unless its options say so")
{
  const auto adam = [](double decay) {
    return [decay](double& w, double g, int step, double rate, double& m, double& v) {
      adam_update(adam_options, decay, w, g, step, rate, m, v);
    };
  };
  const auto weight_after = serially(weight, 0.05, adam(0.3));
  const auto check = [&](const AdamOptions& options, double decay) {
    const auto got = stepped<AdamW, double>(single_layer, options, false);
    CHECK(difference(got.first, weight_after) < 1e-14);
    CHECK(difference(got.second, serially(bias, 0.05, adam(decay))) < 1e-14);
  };
  check(adam_options, 0);
  AdamOptions options = adam_options;
  options.decay_biases_and_norms = true;
  check(options, 0.3);
  // A group's decay applies to all its parameters; a group without one changes nothing.
  options.decay_biases_and_norms = false;
  options.groups = {{.names = {"bias"}, .weight_decay = 0.2}};
  check(options, 0.2);
  options.groups = {{.names = {"bias"}, .learning_rate = 0.05}};
  check(options, 0);
}

/// The error message of an optimizer with these options, or of a step with them; empty if there is
/// none.
template <template <class, class> class Optimizer, class Options>
std::string message_for(const Options& options, bool at_step)
{
  return message_of<ArgumentError>([&] {
    on_mesh(single_rank, [&](const auto& mesh) {
      TwoParameters<Summa25D, double> two{mesh};
      On<Optimizer, double, Summa25D> optimizer{two.parameters(), at_step ? Options{} : options};
      optimizer.options() = options;
      optimizer.step(two.parameters());
      return 0;
    });
  });
}

TEST_CASE("groups that no update has, or that change nothing, are refused")
{
  const auto adam = [](const ParameterGroup& group) {
    AdamOptions options = adam_options;
    options.groups = {group};
    return message_for<AdamW>(options, false);
  };
  CHECK(adam({.names = {"weight"}, .learning_rate = 0, .weight_decay = 0}) == "");
  CHECK(mentions(adam({.names = {"weight", "layers.*"}}), "got \"layers.*\"", "is weight",
                 "names of parameters()"));
  CHECK(mentions(adam({.names = {"*"}, .learning_rate = -1.0}), "a group's learning rate of -1"));
  CHECK(mentions(adam({.names = {"*"}, .weight_decay = -1.0}), "a group's weight decay of -1"));
  AdamOptions options = adam_options;
  options.groups = {{.names = {"*"}}};
  CHECK(mentions(message_for<AdamW>(options, true), "got 1 groups", "made for 0",
                 "make a new optimizer"));
  options.learning_rate = 0;
  options.groups[0].learning_rate = 0.1;
  CHECK(message_for<AdamW>(options, false) == "");
  CHECK(mentions(
      message_for<Sgd>(SgdOptions{.groups = {{.names = {"*"}, .weight_decay = 0.1}}}, false),
      "weight decay of 0.1", "Sgd does not have"));
}

TEST_CASE("a group's learning rate is its base, of which set_learning_rate takes a factor")
{
  // Like PyTorch's LambdaLR: each group has its rate times the schedule's factor. The optimizer has
  // the default rate, which is not the schedule's.
  const auto found = on_root(single_rank, [](const auto& mesh) -> std::vector<std::string> {
    TwoParameters<Summa25D, double> two{mesh};
    On<Sgd, double, Summa25D> optimizer{two.parameters(),
                                        {.groups = {{.names = {"bias"}, .learning_rate = 1e-5}}}};
    const auto step_after = [&](auto set) {
      const auto before = two.gathered();
      set();
      take_step(two, optimizer, 0);
      const auto after = two.gathered();
      const auto off = [](const auto& now, const auto& then, Shape shape, double rate) {
        auto wanted = gradient<double>(shape, 0);
        wanted *= -rate;
        return difference(Global<double>{now - then}, wanted);
      };
      return [=](double of_weight, double of_bias) {
        return std::max(off(after.first, before.first, weight, of_weight),
                        off(after.second, before.second, bias, of_bias)) < 1e-15
                   ? "as wanted"
                   : "other rates";
      };
    };
    std::vector<std::string> all;
    all.push_back(step_after([] {})(0.1, 1e-5));
    all.push_back(step_after([&] { optimizer.set_learning_rate(3e-4, 3e-4); })(3e-4, 1e-5));
    all.push_back(step_after([&] { optimizer.set_learning_rate(6e-5, 3e-4); })(6e-5, 0.2 * 1e-5));
    const auto refused = [&](auto set) {
      return message_of<ArgumentError>([&] { (void)step_after(set); });
    };
    all.push_back(refused([&] { optimizer.options().learning_rate = 0.05; }));
    all.push_back(refused([&] { optimizer.set_learning_rate(0.1, 0); }));
    all.push_back(refused([&] { optimizer.set_learning_rate(0, 0); }));
    all.push_back(refused([&] { optimizer.set_learning_rate(0.1, -1); }));
    return all;
  });
  for (std::size_t i = 0; i < 3; ++i) CHECK(found[i] == "as wanted");
  CHECK(mentions(found[3], "got a learning rate of 0.05", "whose rate was 6e-05",
                 "one of its groups has its own rate", "call set_learning_rate(rate, base)"));
  CHECK(mentions(found[4], "a learning rate of 0.1 whose base is too small", "as its base"));
  CHECK(mentions(found[5], "a learning rate of 0 whose base is too small"));
  CHECK(mentions(found[6], "a base of learning rates of -1"));
}

TEST_CASE("optimizers work in float")
{
  if (!fits(two_two_two)) return;
  const auto near = [](const auto& got, const auto& wanted) {
    double worst = 0;
    for (std::size_t i = 0; i < wanted.first.size(); ++i)
      worst = std::max(worst, std::abs(double{got.first.data()[i]} - wanted.first.data()[i]));
    return worst < 1e-5;
  };
  const SgdOptions sgd{.learning_rate = 0.2, .momentum = 0.9};
  CHECK(near(stepped<Sgd, float>(two_two_two, sgd), stepped<Sgd, double>(two_two_two, sgd)));
  CHECK(near(stepped<AdamW, float>(two_two_two, adam_options),
             stepped<AdamW, double>(two_two_two, adam_options)));
}

TEST_CASE("Adam in float follows Adam in double to float's accuracy")
{
  const auto moved = []<class T>(T) {
    return on_root(single_rank, [](const auto& mesh) {
      TwoParameters<Summa25D, T> two{mesh};
      On<Adam, T, Summa25D> adam{two.parameters(), {.learning_rate = 0.05}};
      for (int step = 0; step < 25; ++step)
      {
        two.set_gradients(1);
        adam.step(two.parameters());
      }
      return two.gathered().first;
    });
  };
  const auto in_float = moved(0.0F);
  const auto in_double = moved(0.0);
  const auto start = first_value<float>(weight);
  double error = 0;
  double distance = 0;
  for (std::size_t i = 0; i < start.size(); ++i)
  {
    error += std::abs(double{in_float.data()[i]} - in_double.data()[i]);
    distance += std::abs(in_double.data()[i] - double{start.data()[i]});
  }
  CHECK(distance > 0);
  CHECK(error < 2e-6 * distance);  // 2.3e-5 with 1 - beta2 rounded to float twice
}

TEST_CASE("the padding of parameters stays zero")
{
  for_each_place([]<class S>(const Place<S>& place) {
    CAPTURE(place.name());
    const auto paddings = on_mesh(place, [](const auto& mesh) {
      TwoParameters<S, double> two{mesh};
      On<AdamW, double, S> optimizer{two.parameters(), adam_options};
      for (int step = 0; step < 3; ++step)
      {
        two.set_gradients(step);
        optimizer.step(two.parameters());
      }
      return two.padded();
    });
    Padding all;
    for (const auto& p : paddings) all += p;
    CHECK(all.count > 0);
    CHECK(all.largest == 0);
  });
}

TEST_CASE("all replicas of a parameter stay bit-equal")
{
  for_each_place([]<class S>(const Place<S>& place) {
    /// Where a shard lies, and what it holds.
    using Shard = std::pair<std::vector<std::size_t>, std::vector<float>>;
    using Layer = Linear<S, Threads, float>;
    const auto train = [](const auto& mesh) {
      Layer layer{mesh, 7, 5};
      Parameters<float, typename Layer::Mesh> parameters;
      layer.append_parameters(parameters, "");
      AdamW<float, typename Layer::Mesh> optimizer{parameters, adam_options};
      const auto x = scatter<typename S::Input>(mesh, uniform<float>(13, 7, 1));
      const auto dy = scatter<typename S::Output>(mesh, uniform<float>(13, 5, 2));
      typename Layer::Output y{mesh, {13, 5}};
      typename Layer::Input dx{mesh, {13, 7}};
      for (int step = 0; step < 3; ++step)
      {
        layer.forward(x, y);
        layer.backward(x, dy, dx);
        checked_step(optimizer, parameters);
      }
      std::vector<Shard> shards;
      for (std::size_t i = 0; i < parameters.size(); ++i)
      {
        const auto& value = parameters[i].value;
        const Block block = value.block(mesh.rank());
        const auto elements = value.padded.elements();
        shards.push_back({{i, block.rows.offset, block.cols.offset, block.cols.valid},
                          {elements.begin(), elements.end()}});
      }
      return shards;
    };
    std::map<std::vector<std::size_t>, std::vector<float>> first;
    std::size_t replicas = 0;
    CAPTURE(place.name());
    for (const auto& shards : on_mesh(place, train))
      for (const auto& [where, elements] : shards)
      {
        const auto [at, is_first] = first.emplace(where, elements);
        replicas += is_first ? 0 : 1;
        CHECK(elements == at->second);
      }
    CHECK(replicas > 0);  // at least the bias has replicas
  });
}

TEST_CASE("options out of range are refused, by the constructor and by a step")
{
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  constexpr double infinity = std::numeric_limits<double>::infinity();
  struct Row
  {
    const char* name;
    const char* range;
    std::vector<double> good, bad;
    double AdamOptions::*adam;
    double SgdOptions::*sgd;
  };
  const std::vector<Row> table{
      {"a learning rate",
       "[0, inf)",
       {0, 0.1, 7},
       {-0.1, nan, infinity},
       &AdamOptions::learning_rate,
       &SgdOptions::learning_rate},
      {"a momentum", "[0, 1)", {0, 0.9}, {-7, 1, nan, infinity}, nullptr, &SgdOptions::momentum},
      {"a beta1", "[0, 1)", {0, 0.9}, {-0.1, 1, 1.5, nan}, &AdamOptions::beta1, nullptr},
      {"a beta2", "[0, 1)", {0, 0.99}, {-0.1, 1, 1.5, nan}, &AdamOptions::beta2, nullptr},
      {"an epsilon", "[0, inf)", {0, 1e-8}, {-1, nan, infinity}, &AdamOptions::epsilon, nullptr},
      {"a weight decay",
       "[0, inf)",
       {0, 0.1},
       {-0.1, nan, infinity},
       &AdamOptions::weight_decay,
       nullptr}};
  for (const auto& row : table)
    for (const bool at_step : {false, true})
    {
      const auto check =
          [&]<template <class, class> class Optimizer, class Options>(double Options::*option) {
            if (option == nullptr) return;
            Options options;
            for (const double value : row.good)
            {
              options.*option = value;
              CHECK(message_for<Optimizer>(options, at_step) == "");
            }
            for (const double value : row.bad)
            {
              CAPTURE(row.name, value, at_step);
              options.*option = value;
              CHECK(mentions(message_for<Optimizer>(options, at_step),
                             std::string{"got "} + row.name + " of ",
                             std::string{"use one in "} + row.range));
            }
          };
      check.template operator()<Sgd, SgdOptions>(row.sgd);
      check.template operator()<Adam, AdamOptions>(row.adam);
      check.template operator()<AdamW, AdamOptions>(row.adam);
    }
}

template <template <class, class> class Optimizer>
void refuses_other_parameters()
{
  const auto step = [](auto change) {
    return message_of<ShapeError>([&] {
      on_mesh(single_rank, [&](const auto& mesh) {
        TwoParameters<Summa25D, double> two{mesh};
        On<Optimizer, double, Summa25D> optimizer{two.parameters()};
        auto parameters = two.parameters();
        change(parameters);
        optimizer.step(parameters);
        return 0;
      });
    });
  };
  const char* advice = "make a new optimizer";
  CHECK(step([](auto&) {}) == "");
  CHECK(mentions(step([](auto& p) { p.pop_back(); }), "got 1 parameters", advice));
  CHECK(mentions(step([](auto& p) { p.push_back(p[0]); }), "got 3 parameters", advice));
  CHECK(mentions(step([](auto& p) { p.clear(); }), "got 0 parameters", advice));
  CHECK(mentions(step([](auto& p) { std::swap(p[0], p[1]); }), "got 2 parameters", advice));
}

TEST_CASE("parameters of another network are refused")
{
  refuses_other_parameters<Sgd>();
  refuses_other_parameters<Adam>();
  refuses_other_parameters<AdamW>();
}

TEST_CASE("the state of an optimizer holds its moments of each parameter, and a copy has its own")
{
  if (!fits(4)) return;
  const auto ranks = on_mesh(single_layer, [](const auto& mesh) {
    Findings found;
    using M = typename TwoParameters<Summa25D, double>::M;
    TwoParameters<Summa25D, double> two{mesh};
    two.set_gradients(1);
    Adam<double, M> adam{two.parameters()};
    Sgd<double, M> sgd{two.parameters()};
    adam.step(two.parameters());
    Adam<double, M> copy = adam;
    const auto state = state_of(adam, sgd);
    const std::vector<std::string> names{"adam.mean.weight",    "adam.mean.bias",
                                         "adam.square.weight",  "adam.square.bias",
                                         "sgd.velocity.weight", "sgd.velocity.bias"};
    for (std::size_t i = 0; i < names.size(); ++i)
      found.check(state.matrices.at(i).name == names[i], state.matrices[i].name);
    found.check(state.numbers.size() == 1 && *state.numbers[0].value == 1, "other numbers");

    const auto mean = gather(state.matrices[0].matrix);
    const auto of_copy = gather(state_of(copy).matrices[0].matrix);
    auto expected = gradient<double>(weight, 1);
    expected *= 1 - AdamOptions{}.beta1;
    if (mesh.rank() == 0)
    {
      found.check(difference(mean, expected) < 1e-15, "another mean");
      found.check(identical(mean, of_copy), "another mean of the copy");
    }
    adam.step(two.parameters());
    found.check(identical(gather(state_of(copy).matrices[0].matrix), of_copy),
                "shared with a copy");
    found.check(*state_of(copy).numbers[0].value == 1, "a shared number");
    return found;
  });
  require_clear(ranks);
}

}  // namespace cubist::test::optimizer_test
