// SPDX-License-Identifier: BSD-3-Clause
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cubist/nn/layer.hpp"

#include "catch.hpp"
#include "nn.hpp"

namespace cubist::test::layer_test
{

namespace
{

using TestMesh = AxisMesh<Summa25D::Axes, Threads>;
using Matrix = DistMatrix<double, Summa25D::Input, TestMesh>;

/// A layer without effect, with one parameter: no more than the interface asks for.
struct Plain
{
  using Value = double;
  using Mesh = TestMesh;
  using Input = Matrix;
  using Output = Matrix;

  const Output& forward(const Input& x, const Pass&) { return x; }
  const Input* backward(const Input&, const Output& dy, const Pass&, bool wants_dx)
  {
    return wants_dx ? &dy : nullptr;
  }
  void finish_backward() {}
  void append_parameters(Parameters<double, Mesh>& list, const std::string& prefix)
  {
    list.push_back({prefix + "weight", weight.view(), gradient.view()});
  }

  Matrix weight;
  Matrix gradient;
};

/// One that has a number for checkpoints, too.
struct Counter : Plain
{
  explicit Counter(const Plain& plain) : Plain{plain} {}

  void append_state(State<double, Mesh>& state, const std::string& prefix)
  {
    state.numbers.push_back({prefix + "count", &count});
  }

  std::uint64_t count = 0;
};

struct OutputByValue : Plain
{
  Output forward(const Input& x, const Pass&) { return x; }
};

struct WithoutChoiceOfDx : Plain
{
  const Input* backward(const Input&, const Output& dy, const Pass&) { return &dy; }
};

struct WithoutParameters
{
  using Value = double;
  using Mesh = TestMesh;
  using Input = Matrix;
  using Output = Matrix;

  const Output& forward(const Input& x, const Pass&) { return x; }
  const Input* backward(const Input&, const Output& dy, const Pass&, bool) { return &dy; }
  void finish_backward() {}
};

/// A layer of a stack, which writes down its calls: Y = X + number, dX = number dY.
class Recorder : public detail::AnyLayer<Matrix, Parameters<double, TestMesh>>
{
 public:
  Recorder(std::string& log, int number) : log_{log}, number_{number} {}

  const Matrix& forward(const Matrix& x, const Pass&) override
  {
    log("f");
    if (fails) throw DataError{"failed"};
    change(x, y_, [](double v, int n) { return v + n; });
    return *y_;
  }
  const Matrix* backward(const Matrix& x, const Matrix& dy, const Pass&, bool wants_dx) override
  {
    log("b");
    log_ += "(" + std::to_string(static_cast<int>(x.valid()(0, 0))) + ")";
    change(dy, dx_, [](double v, int n) { return v * n; });
    return wants_dx ? &*dx_ : nullptr;
  }
  void finish_backward() override { log("w"); }
  void append_parameters(Parameters<double, TestMesh>&, const std::string&) override {}
  void swap_activations(AnyLayer& other) override
  {
    auto& layer = static_cast<Recorder&>(other);
    log("s");
    log_ += std::to_string(layer.number_);
    std::swap(y_, layer.y_), std::swap(dx_, layer.dx_);
  }

  bool fails = false;

 private:
  void log(const char* what) { log_ += std::string{" "} + what + std::to_string(number_); }
  template <class F>
  void change(const Matrix& from, std::optional<Matrix>& to, F f)
  {
    detail::fit_like(to, from).valid()(0, 0) = f(from.valid()(0, 0), number_);
  }

  std::string& log_;
  int number_;
  std::optional<Matrix> y_;
  std::optional<Matrix> dx_;
};

/// The same, of another type, which keeps its matrices.
struct Keeper final : Recorder
{
  using Recorder::Recorder;
  void swap_activations(AnyLayer&) override {}
};

static_assert(LayerType<Plain>);
static_assert(LayerType<Counter>);
static_assert(!LayerType<OutputByValue>);
static_assert(!LayerType<WithoutChoiceOfDx>);
static_assert(!LayerType<WithoutParameters>);
static_assert(!LayerType<Matrix>);

}  // namespace

TEST_CASE("a pass without settings is one of evaluation, on sequences of one token")
{
  const Pass pass;
  CHECK(!pass.training_step);
  CHECK(pass.sequence == 1);
  CHECK(pass.position == 0);
}

TEST_CASE("the parameters of a layer have its names, and are its matrices")
{
  const auto [names, value] = on_root<Threads>(single_layer, [](const auto& mesh) {
    Plain layer{Matrix{mesh, {3, 5}}, Matrix{mesh, {3, 5}}};
    layer.weight.generate([](std::size_t i, std::size_t j) { return double(10 * i + j); });
    std::vector<std::string> all;
    for (const auto& p : parameters_of(layer)) all.push_back(p.name);
    for (const auto& p : parameters_of(layer, "first.")) all.push_back(p.name);
    return std::tuple{all, gather(parameters_of(layer).front().value)};
  });
  CHECK(names == std::vector<std::string>{"weight", "first.weight"});
  CHECK(identical(value, generate<double>(3, 5, [](std::size_t i, std::size_t j) {
                    return double(10 * i + j);
                  })));
}

TEST_CASE("a checkpoint keeps the parameters of a layer, or what the layer says")
{
  const auto names = on_root<Threads>(single_rank, [](const auto& mesh) {
    Plain plain{Matrix{mesh, {3, 5}}, Matrix{mesh, {3, 5}}};
    Counter counter{plain};
    State<double, TestMesh> state;
    detail::append_state_of(plain, state, "0.");
    detail::append_state_of(counter, state, "1.");
    std::vector<std::string> all;
    for (const auto& m : state.matrices) all.push_back(m.name);
    for (const auto& n : state.numbers) all.push_back(n.name);
    return all;
  });
  CHECK(names == std::vector<std::string>{"0.weight", "1.count"});
}

TEST_CASE("a kept matrix is made again only when its shape or its padding changes")
{
  const auto made = on_root<Threads>(single_layer, [](const auto& mesh) {
    std::optional<Matrix> kept;
    std::vector<bool> all;
    const auto add = [&](Shape shape, Quanta quanta) {
      auto& matrix = detail::fit(kept, mesh, shape, quanta);
      all.push_back(matrix.padded()(0, 0) == 0);
      mesh.engine().fill(matrix.padded(), 1.0);
      all.push_back(matrix.shape() == shape && matrix.quanta() == quanta);
    };
    add({6, 4}, {2, 2});
    add({6, 4}, {2, 2});
    add({60, 4}, {2, 2});
    add({60, 4}, {128, 2});
    return all;
  });
  CHECK(made == std::vector<bool>{true, true, false, true, true, true, true, true});
}

TEST_CASE("a stack runs forward again in all segments but the last, whose memory layers share")
{
  struct Run
  {
    std::string forward, backward, again;
    double y, dx, dx_again;
  };
  const auto run = [](std::size_t recompute, bool keeps) {
    return on_root<Threads>(single_rank, [&](const auto& mesh) {
      std::string log;
      detail::LayerStack<Matrix, Recorder> stack{"forward", "backward", recompute};
      for (int i = 1; i <= 5; ++i)
        if (keeps)
          stack.add(std::make_unique<Keeper>(log, i));
        else
          stack.add(std::make_unique<Recorder>(log, i));
      const Matrix x{mesh, {1, 1}};
      Matrix dy{mesh, {1, 1}};
      dy.valid()(0, 0) = 1;
      Run r;
      const Matrix& y = stack.forward(x, {});
      r.forward = std::exchange(log, "");
      r.dx = stack.backward(dy, true)->valid()(0, 0);
      r.backward = std::exchange(log, "");
      r.dx_again = stack.backward(dy, true)->valid()(0, 0);
      r.again = log;
      r.y = y.valid()(0, 0);
      return r;
    });
  };
  const std::string all = " f1 f2 f3 f4 f5";
  const std::string back = " b5(10) b4(6) b3(3) b2(1) b1(0)";
  for (const bool keeps : {false, true})
    for (const std::size_t recompute : {0U, 1U, 2U, 3U, 5U, 8U})
    {
      CAPTURE(recompute, keeps);
      const auto r = run(recompute, keeps);
      CHECK(r.y == 15);
      CHECK(r.dx == 120);
      CHECK(r.dx_again == 120);
      if (recompute != 0 && recompute < 5) continue;
      CHECK(r.forward == all);
      CHECK(r.backward == back);
      CHECK(r.again == back);
    }
  CHECK(run(2, false).forward == " f1 f2 s31 f3 s42 f4 s53 f5");
  CHECK(run(2, false).backward == " b5(10) s35 f3 f4 b4(6) b3(3) s13 f1 s24 f2 b2(1) b1(0)");
  CHECK(run(2, true).backward == " b5(10) f3 f4 b4(6) b3(3) f1 f2 b2(1) b1(0)");
  CHECK(run(3, true).again == " f4 f5 b5(10) b4(6) f1 f2 f3 b3(3) b2(1) b1(0)");
}

TEST_CASE("a stack has no backward without a forward, and one after a recomputation that failed")
{
  const auto [messages, dx] = on_root<Threads>(single_rank, [](const auto& mesh) {
    std::string log;
    detail::LayerStack<Matrix, Recorder> stack{"forward", "backward", 1};
    for (int i = 1; i <= 3; ++i) stack.add(std::make_unique<Recorder>(log, i));
    const Matrix x{mesh, {1, 1}};
    Matrix dy{mesh, {1, 1}};
    dy.valid()(0, 0) = 1;
    std::vector<std::string> all;
    auto& second = *stack.layers()[1];
    const auto backward = [&] { (void)stack.backward(dy, true); };
    all.push_back(message_of<ArgumentError>(backward));
    second.fails = true;
    all.push_back(message_of<DataError>([&] { (void)stack.forward(x, {}); }));
    all.push_back(message_of<ArgumentError>(backward));
    second.fails = false;
    (void)stack.forward(x, {});
    second.fails = true;
    all.push_back(message_of<DataError>(backward));
    second.fails = false;
    const double value = stack.backward(dy, true)->valid()(0, 0);
    stack.discard();
    all.push_back(message_of<ArgumentError>(backward));
    return std::tuple{all, value};
  });
  CHECK(mentions(messages[0], "before any forward", "call forward first"));
  CHECK(mentions(messages[1], "failed"));
  CHECK(mentions(messages[2], "after one that failed"));
  CHECK(mentions(messages[3], "failed"));
  CHECK(dx == 6);
  CHECK(mentions(messages[4], "before any forward"));
}

}  // namespace cubist::test::layer_test
