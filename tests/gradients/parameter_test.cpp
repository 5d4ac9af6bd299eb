// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/gradients/parameter.hpp"
#include "cubist/nn/dense/linear.hpp"

#include "nn.hpp"

namespace cubist::test::gradients_parameter_test
{

TEST_CASE("a layer's parameters have its prefix, and the shapes of value and gradient")
{
  if (!fits(single_layer)) return;
  const auto listed = [](bool bias) {
    return on_root(single_layer, [&](const auto& mesh) {
      Linear<Summa25D, Threads, float> layer{mesh, 7, 5, {.bias = bias}};
      Parameters<float, AxisMesh<Summa25D::Axes, Threads>> list;
      layer.append_parameters(list, "first.");
      layer.append_parameters(list, "second.");
      std::vector<std::string> lines;
      for (const auto& p : list)
      {
        std::ostringstream line;
        line << p.name << ' ' << p.value.shape << ' ' << p.gradient.shape;
        lines.push_back(line.str());
      }
      return lines;
    });
  };
  CHECK(listed(true) ==
        std::vector<std::string>{"first.weight (7, 5) (7, 5)", "first.bias (1, 5) (1, 5)",
                                 "second.weight (7, 5) (7, 5)", "second.bias (1, 5) (1, 5)"});
  CHECK(listed(false) ==
        std::vector<std::string>{"first.weight (7, 5) (7, 5)", "second.weight (7, 5) (7, 5)"});
}

TEST_CASE("scatter into a parameter sets the layer, gather collects value and gradient")
{
  for_each_place([]<class S>(const Place<S>& place) {
    struct Result
    {
      Global<double> y, weight, bias, weight_gradient, bias_gradient;
    };
    const auto x = integers<double>(6, 7, 1);
    const auto dy = integers<double>(6, 5, 2);
    const auto w = integers<double>(7, 5, 3);
    const auto b = generate<double>(1, 5, [](std::size_t, std::size_t) { return 2.0; });
    const auto got = on_root(place, [&](const auto& mesh) {
      using Layer = Linear<S, Threads, double>;
      Layer layer{mesh, 7, 5};
      Parameters<double, typename Layer::Mesh> list;
      layer.append_parameters(list, "");
      scatter(w, list[0].value);
      scatter(b, list[1].value);
      typename Layer::Input dx{mesh, {6, 7}};
      const auto in = scatter<typename S::Input>(mesh, x);
      const auto y = layer.forward(in);
      layer.backward(in, scatter<typename S::Output>(mesh, dy), dx);
      return Result{gather(y), gather(list[0].value), gather(list[1].value),
                    gather(list[0].gradient), gather(list[1].gradient)};
    });
    auto y = product(x, w);
    for (auto& v : y) v += 2;
    CAPTURE(place.name());
    CHECK(difference(got.y, y) == 0);
    CHECK(difference(got.weight, w) == 0);
    CHECK(difference(got.bias, b) == 0);
    CHECK(difference(got.weight_gradient, product(transposed(x), dy)) == 0);
    CHECK(difference(got.bias_gradient, column_sums(dy)) == 0);
  });
}

TEST_CASE("a parameter refuses a matrix of another shape")
{
  if (!fits(single_layer)) return;
  const auto set = [](std::size_t rows, std::size_t cols) {
    return message_of<ShapeError>([=] {
      on_mesh(single_layer, [=](const auto& mesh) {
        Linear<Summa25D, Threads, double> layer{mesh, 7, 5};
        Parameters<double, AxisMesh<Summa25D::Axes, Threads>> list;
        layer.append_parameters(list, "");
        scatter(integers<double>(rows, cols, 1), list[0].value);
        return 0;
      });
    });
  };
  CHECK(set(7, 5) == "");
  CHECK(mentions(set(5, 7), "got a matrix of (5, 7) for a matrix of (7, 5)",
                 "give both the same shape"));
}

}  // namespace cubist::test::gradients_parameter_test
