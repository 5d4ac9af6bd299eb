// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/nn/layer.hpp"

#include "nn.hpp"

namespace cubist::test::layer_test
{

TEST_CASE("a pass without settings is one of evaluation, on sequences of one token")
{
  const Pass pass;
  CHECK(!pass.training_step);
  CHECK(pass.sequence == 1);
  CHECK(pass.position == 0);
}

using TestMesh = AxisMesh<Summa25D::Axes, Threads>;
using Matrix = DistMatrix<double, Summa25D::Input, TestMesh>;
using Back = BackwardPass<double, TestMesh>;

/// A layer that does nothing and has one parameter: no more than the interface asks for.
struct Plain
{
  using Value = double;
  using Mesh = TestMesh;
  using Input = Matrix;
  using Output = Matrix;

  struct Kept
  {
  };

  const Output& forward(const Input& x, const Pass&, Kept&) { return x; }
  const Input* backward(const Input&, const Output& dy, const Back&, Kept&, bool wants_dx)
  {
    return wants_dx ? &dy : nullptr;
  }
  void append_parameters(Parameters<double, Mesh>& list, const std::string& prefix)
  {
    list.push_back({prefix + "weight", weight.view(), gradient.view()});
  }

  Matrix weight;
  Matrix gradient;
};

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

struct OutputByValue : Plain
{
  Output forward(const Input& x, const Pass&, Kept&) { return x; }
};

struct WithoutChoiceOfDx : Plain
{
  const Input* backward(const Input&, const Output& dy, const Back&, Kept&) { return &dy; }
};

struct WithoutParameters
{
  using Value = double;
  using Mesh = TestMesh;
  using Input = Matrix;
  using Output = Matrix;

  struct Kept
  {
  };

  const Output& forward(const Input& x, const Pass&, Kept&) { return x; }
  const Input* backward(const Input&, const Output& dy, const Back&, Kept&, bool) { return &dy; }
};

struct WithoutKept : Plain
{
  struct Kept
  {
    Kept() = delete;
  };
};

/// A layer that also has a number for checkpoints.
struct Counter : Plain
{
  explicit Counter(const Plain& plain)
      : Plain{plain}
  {
  }

  void append_state(State<double, Mesh>& state, const std::string& prefix)
  {
    state.numbers.push_back({prefix + "count", &count});
  }

  std::uint64_t count = 0;
};

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

static_assert(LayerType<Plain>);
static_assert(LayerType<Counter>);
static_assert(!LayerType<OutputByValue>);
static_assert(!LayerType<WithoutChoiceOfDx>);
static_assert(!LayerType<WithoutParameters>);
static_assert(!LayerType<WithoutKept>);
static_assert(!LayerType<Matrix>);

TEST_CASE("a kept matrix is made again only when its shape or its padding changes")
{
  const auto made = on_root<Threads>(single_layer, [](const auto& mesh) {
    std::optional<Matrix> kept;
    std::vector<bool> all;
    const auto add = [&](Shape shape, Quanta quanta) {
      auto& matrix = fit(kept, mesh, shape, quanta);
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

}  // namespace cubist::test::layer_test
